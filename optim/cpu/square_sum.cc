#include "brim/optim/cpu/square_sum.h"

#include "brim/optim/cpu/register.h"
#include "brim/optim/optimizer.h"

namespace brim::cpu {
namespace {

template <class T, class S = T>
void square_sum(const KernelCall& call, const NoAttributes&) {
  const auto read = optim::GradientReader<T>::from(call.in[1].as<double>());
  *call.out[0].as<double>() =
      sum_squares<kSquares, T, S>(call.in[0], read, [](int64_t, int64_t) {});
}

}  // namespace

void register_square_sum() {
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::float32, square_sum<float>);
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::bfloat16,
                  square_sum<float, BFloat16>);
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::float64, square_sum<double>);
}

}  // namespace brim::cpu
