#include "brim/ops/normalize.h"

#include <algorithm>
#include <cmath>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that repay a second thread
constexpr int64_t kPixels = 16;    // pixels whose constants are laid out behind each other

// A block of 16 pixels is a whole number of vectors for any number of channels.
template <class T>
struct Constants {
  T scale[kPixels * kernel::NormalizeAttributes::kMaxChannels];
  T shift[kPixels * kernel::NormalizeAttributes::kMaxChannels];

  Constants(const kernel::NormalizeAttributes& attributes, int64_t channels) {
    for (int64_t i = 0; i < kPixels * channels; ++i) {
      scale[i] = static_cast<T>(attributes.scale[static_cast<size_t>(i % channels)]);
      shift[i] = static_cast<T>(attributes.shift[static_cast<size_t>(i % channels)]);
    }
  }
};

template <class T>
void normalize_kernel(const KernelCall& call, const kernel::NormalizeAttributes& attributes) {
  int64_t count = call.out[0].numel();
  if (count == 0) return;
  int64_t channels = call.out[0].shape.back(), block = kPixels * channels;
  const Constants<T> constants(attributes, channels);
  const uint8_t* x = call.in[0].as<uint8_t>();
  T* y = call.out[0].as<T>();
  parallel_for((count + block - 1) / block, kGrain / block, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      int64_t n = std::min(block, count - b * block);
      const uint8_t* from = x + b * block;
      T* to = y + b * block;
      for (int64_t i = 0; i < n; ++i)
        to[i] = std::fma(static_cast<T>(from[i]), constants.scale[i], constants.shift[i]);
    }
  });
}

}  // namespace

void register_normalize() {
  register_kernel(kernel::normalize, DeviceType::cpu, Dtype::float32, normalize_kernel<float>);
  register_kernel(kernel::normalize, DeviceType::cpu, Dtype::float64, normalize_kernel<double>);
}

}  // namespace brim::cpu
