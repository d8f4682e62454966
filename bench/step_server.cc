// Runs training steps on demand, so that a driver can alternate it with other programs: prints
// `ready` when warm, then answers each line `step N` with one line of N space-separated seconds,
// and `peak` with the bytes that were live at the most. The same problem as peers/torch_step.py:
// random normalised images, SGD with momentum.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <map>
#include <string>

#include "brim/base/parallel.h"
#include "brim/brim.h"

namespace {

using namespace brim;

struct Options {
  std::string model = "resnet50", dtype = "f32", weights;
  int64_t batch = 16, size = 224, classes = 1000;
  int threads = 0, warmup = 2;
};

const std::map<std::string, Dtype> kPrecisions = {
    {"f32", Dtype::float32}, {"bf16", Dtype::bfloat16}, {"f16", Dtype::float16}};

Tensor random_labels(int64_t count, int64_t classes) {
  std::vector<int64_t> labels;
  RandomStream random(RandomKey{2});
  for (int64_t i = 0; i < count; ++i)
    labels.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(classes))));
  return from_vector(labels, {count});
}

std::unique_ptr<nn::Module> make_model(const Options& options) {
  if (options.weights.empty())
    return nn::make_model(options.model, {.classes = options.classes, .seed = 0});
  auto model = nn::load_model(options.weights, {.model = options.model}).module;
  model->train();
  return model;
}

void serve(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  auto model = make_model(options);
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9, .weight_decay = 1e-4});
  TrainStep step(*model, sgd, {.precision = kPrecisions.at(options.dtype)});
  Tensor images = normal({options.batch, options.size, options.size, 3}, 1, RandomKey{1});
  Tensor labels = random_labels(options.batch, options.classes);
  auto timed_step = [&] {
    auto start = std::chrono::steady_clock::now();
    step.run(0.01, [&] { return cross_entropy((*model)(images), labels); });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int i = 0; i < options.warmup; ++i) timed_step();
  std::cout << "ready" << std::endl;
  std::string command;
  for (int count = 0; std::cin >> command;) {
    if (command == "peak") {
      std::cout << memory::account(Device::cpu())->stats().peak_live << std::endl;
      continue;
    }
    std::cin >> count;
    for (int i = 0; i < count; ++i) std::cout << (i > 0 ? " " : "") << timed_step();
    std::cout << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times training steps on demand, for compare_step.py.");
  Options options;
  app.add_option("--model", options.model);
  app.add_option("--batch", options.batch);
  app.add_option("--size", options.size);
  app.add_option("--classes", options.classes);
  app.add_option("--threads", options.threads);
  app.add_option("--warmup", options.warmup);
  app.add_option("--dtype", options.dtype, "bf16, f16: mixed precision")
      ->check(CLI::IsMember(kPrecisions));
  app.add_option("--weights", options.weights, "a file of the model, which may be a pruned one");
  CLI11_PARSE(app, argc, argv);
  try {
    serve(options);
  } catch (const std::exception& error) {
    std::cerr << "step_server: " << error.what() << std::endl;
    return 1;
  }
}
