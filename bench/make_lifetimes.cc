// Writes a generated packing problem as CSV to standard output, for pack.py.
//
//   make_lifetimes FAMILY BUFFERS SEED
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "brim/memory/plan/packing_csv.h"
#include "brim/tests/support/packing_families.h"

int main(int argc, char** argv) {
  using namespace brim;
  const auto& families = testing::packing_families();
  auto family =
      std::ranges::find(families, argc == 4 ? argv[1] : "", &testing::PackingFamily::name);
  if (family == families.end()) {
    fmt::print(stderr, "usage: make_lifetimes FAMILY BUFFERS SEED, where FAMILY is");
    for (const auto& known : families) fmt::print(stderr, " {}", known.name);
    fmt::print(stderr, "\n");
    return 1;
  }
  memory::PackingRows rows{
      .lifetimes =
          family->make(std::atoll(argv[2]), std::strtoull(argv[3], nullptr, 10)).lifetimes};
  for (size_t i = 0; i < rows.lifetimes.size(); ++i) rows.ids.push_back(std::to_string(i));
  fmt::print("{}", memory::format_packing_csv(rows));
}
