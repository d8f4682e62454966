#include <atomic>
#include <bit>
#include <cmath>

#include "brim/base/parallel.h"
#include "brim/optim/cpu/register.h"
#include "brim/optim/optimizer.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 65536;  // elements that repay a second thread

// Infinities and NaNs have all bits of the exponent set: the largest magnitude, compared as a whole
// number, tells. A loop without branches, unlike std::isfinite with an early end.
template <class T, class Bits>
void all_finite(const KernelCall& call, const NoAttributes&) {
  const T* x = call.in[0].as<T>();
  constexpr Bits kInfinity = std::bit_cast<Bits>(static_cast<T>(INFINITY));
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  std::atomic<bool> finite = true;
  parallel_for(call.in[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
    Bits largest = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = begin; i < end; ++i) {
      Bits magnitude = std::bit_cast<Bits>(x[i]) & kMagnitude;
      largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= kInfinity) finite = false;
  });
  *call.out[0].as<int32_t>() = finite ? 1 : 0;
}

}  // namespace

void register_all_finite() {
  register_kernel(kernel::all_finite, DeviceType::cpu, Dtype::float32, all_finite<float, uint32_t>);
  register_kernel(kernel::all_finite, DeviceType::cpu, Dtype::float64,
                  all_finite<double, uint64_t>);
}

}  // namespace brim::cpu
