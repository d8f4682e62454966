// Writes the weights of a formula model to a file, for exchange.py: save_model MODEL CLASSES FILE.
#include <cstdio>
#include <exception>

#include "brim/nn/weights.h"
#include "brim/tests/golden/formula_model.h"

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "save_model MODEL CLASSES FILE\n"), 1;
  try {
    auto model = brim::testing::formula_model(argv[1], std::stoll(argv[2]));
    brim::nn::save_weights(*model, argv[3], {.model = argv[1]});
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "save_model: %s\n", error.what()), 1;
  }
}
