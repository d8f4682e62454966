#include "brim/ops/dropout.h"

#include <algorithm>
#include <cmath>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

constexpr int64_t kPiece = 4096;  // elements of a sample that one thread draws in a row

// 32 random bits below this drop the element: the chance is p to 2^-24, as with `to_uniform`.
uint32_t threshold(double p) { return static_cast<uint32_t>(std::ceil(p * 0x1p24)); }

// A counter of the generator makes four words: they belong to four neighbouring elements.
template <class T>
void drop(const T* x, T* y, int64_t begin, int64_t end, uint64_t sample, const RandomKey& key,
          double p) {
  uint32_t below = threshold(p);
  T scale = static_cast<T>(p < 1 ? 1 / (1 - p) : 0);
  for (int64_t e = begin; e < end; e += 4) {
    auto words = philox(key, sample, static_cast<uint64_t>(e) >> 2);
    for (int64_t i = e; i < std::min(e + 4, end); ++i)
      y[i] = (words[static_cast<size_t>(i - e)] >> 8) < below ? T(0) : x[i] * scale;
  }
}

template <class T>
void dropout(const KernelCall& call, const kernel::DropoutAttributes& attributes) {
  const Shape& shape = call.in[0].shape;
  int64_t samples = shape.empty() ? 1 : shape[0];
  if (call.in[0].numel() == 0) return;
  int64_t each = call.in[0].numel() / samples, pieces = (each + kPiece - 1) / kPiece;
  const RandomKey key = attributes.live.key_or(attributes.key);
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  parallel_for(samples * pieces, 4096 / each + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t sample = i / pieces, first = i % pieces * kPiece;
      drop(x + sample * each, y + sample * each, first, std::min(first + kPiece, each),
           attributes.first_sample + static_cast<uint64_t>(sample), key, attributes.p);
    }
  });
}

}  // namespace

void register_dropout() {
  register_kernel(kernel::dropout, DeviceType::cpu, Dtype::float32, dropout<float>);
  register_kernel(kernel::dropout, DeviceType::cpu, Dtype::float64, dropout<double>);
}

}  // namespace brim::cpu
