// Which kernels CUDA has. The table is filled in every build with the toolkit, GPU or not.
#include "brim/ops/cuda/register.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "brim/ops/conv2d.h"
#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/linear.h"
#include "brim/ops/matmul.h"
#include "brim/ops/op.h"

using namespace brim;

namespace {

struct Names {
  std::set<std::string>& names;
  template <class F>
  void unary(const Kernel<F>& kernel) const {
    names.insert(kernel.name);
  }
  template <class F>
  void binary(const Kernel<F>& kernel) const {
    names.insert(kernel.name);
  }
  template <class F>
  void broadcast(const Kernel<F>& kernel) const {
    names.insert(kernel.name);
  }
};

}  // namespace

TEST_CASE("cuda kernels: every elementwise kernel, the products and the convolutions are there") {
  REQUIRE(kernels_ready);
  std::set<std::string> names = {kernel::matmul.name, kernel::bias_gradient.name,
                                 kernel::conv2d.name, kernel::conv2d_backward_data.name,
                                 kernel::conv2d_backward_weight.name};
  for_each_elementwise_kernel(Names{names});
  REQUIRE(names.contains("relu"));
  REQUIRE(names.contains("add"));
  for (const std::string& name : names)
    for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
      CHECK_MESSAGE(has_kernel(name, DeviceType::cuda, dtype), name, " ", to_string(dtype));
      if (!is_low_precision(dtype))
        CHECK_MESSAGE(has_kernel(name, DeviceType::cpu, dtype), name, " ", to_string(dtype));
    }
}
