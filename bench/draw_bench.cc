// Random numbers for the values of a new model: `fill_normal` and `fill_uniform`, which draw in
// vectors, in turns with the scalar formula of each element, whose normal numbers take the
// library's logarithm and cosine. Seconds for 25 million, as many as ResNet-50 has parameters.
#include <fmt/format.h>

#include <cmath>

#include "brim/base/parallel.h"
#include "brim/base/random.h"
#include "brim/bench/timing.h"
#include "brim/core/tensor.h"

namespace {

using namespace brim;

constexpr int64_t kNumbers = 25'000'000;
constexpr RandomKey kKey{1};

float library_normal(uint64_t element) {
  const auto words = philox(kKey, 0, element >> 1);
  const size_t first = (element & 1) * 2;
  const double u = (words[first] + 1.0) * 0x1p-32, v = words[first + 1] * 0x1p-32;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
}

template <class Draw>
void fill_one_by_one(const Tensor& to, const Draw& draw) {
  auto* values = to.data<float>();
  parallel_for(to.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = draw(static_cast<uint64_t>(i));
  });
}

template <class Ours, class Theirs>
void compare(const char* name, const Ours& ours, const Theirs& theirs) {
  ours(), theirs();
  const bench::Pairs pairs = bench::in_pairs(7, ours, theirs);
  fmt::print("{:8} {:.0f} ms; one by one takes {:.1f} times as long ({:.1f} to {:.1f})\n", name,
             pairs.first_seconds / 7 * 1e3, pairs.ratio.median, pairs.ratio.least,
             pairs.ratio.most);
}

}  // namespace

int main() {
  const Tensor to = empty({kNumbers});
  compare(
      "normal", [&] { fill_normal(to, 1, kKey); }, [&] { fill_one_by_one(to, library_normal); });
  compare(
      "uniform", [&] { fill_uniform(to, 0, 1, kKey); },
      [&] { fill_one_by_one(to, [](uint64_t i) { return random_uniform(kKey, 0, i); }); });
}
