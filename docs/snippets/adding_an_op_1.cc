// The op of docs/lse_pool/, used.
#include "brim/autograd/backward.h"
#include "brim/autograd/gradcheck.h"
#include "brim/docs/lse_pool/lse_pool.h"
#include "brim/memory/account.h"

using namespace brim;

namespace {

// [shape]
void check_shape() {
  Tensor x = empty({32, 7, 7, 2048}, {.device = Device::meta()});
  check(example::lse_pool(x).shape() == Shape{32, 2048}, "no kernel ran");
}
// [/shape]

void check_values() {
  Tensor x = from_vector<float>({0, 1, 2, 3}, {1, 2, 2, 1});
  check(std::abs(example::lse_pool(x).item<double>() - 2.053895) < 1e-6, "log((1+e+e^2+e^3)/4)");
  check(std::abs(example::lse_pool(x, {.sharpness = 100}).item<double>() - 2.986137) < 1e-6, "max");
  check(std::abs(example::lse_pool(x, {.sharpness = 1e-3}).item<double>() - 1.5) < 1e-3, "mean");
}

// [gradient]
void check_gradient() {
  Tensor x = uniform({2, 3, 2, 4}, -2, 2, RandomKey{1}, {.dtype = Dtype::float64});
  x.set_requires_grad();
  auto op = [](const Tensors& in) { return Tensors{example::lse_pool(in[0], {.sharpness = 3})}; };
  GradcheckResult result = gradcheck(op, {x});
  check(result.passed, result.message.c_str());
}
// [/gradient]

void check_half() {
  Tensor x = uniform({2, 3, 2, 4}, -2, 2, RandomKey{1}, {.dtype = Dtype::bfloat16});
  x.set_requires_grad();
  Tensor y = example::lse_pool(x);
  backward(y, {.grad = ones(y.shape(), {.dtype = y.dtype()})});
  check(y.dtype() == Dtype::bfloat16 && x.grad().dtype() == Dtype::bfloat16,
        "no kernel of its own");
}

}  // namespace

int main() {
  check_shape();
  check_values();
  check_gradient();
  check_half();
}
