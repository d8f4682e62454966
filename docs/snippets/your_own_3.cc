// An op of one's own, outside of brim's tree: declared, computed, differentiated and checked.
#include <cmath>

#include "brim/brim.h"

using namespace brim;

namespace {

// [op]
// y = log(1 + exp(x)), dx = dy / (1 + exp(-x)); kernels for float32, float64 and, by widening,
// halves.
constexpr Kernel<NoAttributes> softplus_kernel{"mine_softplus"};
constexpr Kernel<NoAttributes> softplus_backward_kernel{"mine_softplus_backward"};

template <class T>
bool register_softplus() {
  register_kernel(softplus_kernel, DeviceType::cpu, dtype_of<T>,
                  [](const KernelCall& call, const NoAttributes&) {
                    const T* x = call.in[0].as<T>();
                    T* y = call.out[0].as<T>();
                    for (int64_t i = 0; i < call.out[0].numel(); ++i)
                      y[i] = std::max(x[i], T(0)) + std::log1p(std::exp(-std::abs(x[i])));
                  });
  register_kernel(softplus_backward_kernel, DeviceType::cpu, dtype_of<T>,
                  [](const KernelCall& call, const NoAttributes&) {
                    const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>();
                    T* dx = call.out[0].as<T>();
                    for (int64_t i = 0; i < call.out[0].numel(); ++i)
                      dx[i] = dy[i] / (1 + std::exp(-x[i]));
                  });
  return true;
}
const bool registered = register_softplus<float>() && register_softplus<double>();

class Softplus final : public autograd::Op {
 public:
  const char* name() const override { return "softplus"; }
  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    Tensor x = contiguous(in[0]), y = empty_like(x);
    launch(softplus_kernel, {x}, {y});
    return {y};
  }
  autograd::Saves saves(const autograd::Needs&) const override { return {.inputs = {0}}; }
  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor x = contiguous(call.input(0)), dx = empty_like(x);
    launch(softplus_backward_kernel, {call.grad(), x}, {dx});
    return {dx};
  }
};

Tensor softplus(Tensor x, Where where = Where::current()) {
  return autograd::apply_one(std::make_shared<Softplus>(), {std::move(x)}, where);
}
// [/op]

}  // namespace

int main() {
  // [check]
  Tensor x = uniform({3, 5}, -4, 4, RandomKey{1}, {.dtype = Dtype::float64}).set_requires_grad();
  GradcheckResult result =
      gradcheck([](const Tensors& in) { return Tensors{softplus(in[0])}; }, {x});
  check(result.passed, result.message.c_str());
  // [/check]
  check(softplus(zeros({2}, {.dtype = Dtype::bfloat16})).to_vector<double>()[0] == 0.69140625,
        "log 2 in bfloat16");
  check(softplus(empty({8, 3}, {.device = Device::meta()})).shape() == Shape{8, 3},
        "no kernel ran");
}
