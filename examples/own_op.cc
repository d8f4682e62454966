// An op of one's own: y = x / (1 + |x|) (softsign), with its kernel for the CPU and its gradient.
// It is counted, recomputed and checked like any other. docs/adding_an_op.md says more.
#include <cmath>
#include <cstdio>

#include "brim/autograd/op.h"
#include "brim/brim.h"

using namespace brim;

// The names of kernels of your own begin with something of your own.
inline constexpr Kernel<NoAttributes> kForward{"example.softsign"};
inline constexpr Kernel<NoAttributes> kBackward{"example.softsign_backward"};

template <class T>
void forward(const KernelCall& call, const NoAttributes&) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  for (int64_t i = 0; i < call.out[0].numel(); ++i) y[i] = x[i] / (1 + std::abs(x[i]));
}

/// dx = dy (1 - |y|)^2, from y alone.
template <class T>
void backward_kernel(const KernelCall& call, const NoAttributes&) {
  const T *dy = call.in[0].as<T>(), *y = call.in[1].as<T>();
  T* dx = call.out[0].as<T>();
  for (int64_t i = 0; i < call.out[0].numel(); ++i)
    dx[i] = dy[i] * (1 - std::abs(y[i])) * (1 - std::abs(y[i]));
}

class Softsign final : public autograd::Op {
 public:
  const char* name() const override { return "softsign"; }
  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    const Tensor x = contiguous(in[0]), y = empty_like(x);
    launch(kForward, {x}, {y});
    return {y};
  }
  autograd::Saves saves(const autograd::Needs&) const override { return {.outputs = {0}}; }
  Tensors backward(autograd::BackwardCall& call) const override {
    const Tensor y = call.output(0), dx = empty_like(y);
    launch(kBackward, {contiguous(call.grad()), y}, {dx});
    return {dx};
  }
};

Tensor softsign(Tensor x, Where where = Where::current()) {
  return autograd::apply_one(std::make_shared<Softsign>(), {std::move(x)}, where);
}

int main() {
  register_kernel(kForward, DeviceType::cpu, Dtype::float64, forward<double>);
  register_kernel(kBackward, DeviceType::cpu, Dtype::float64, backward_kernel<double>);
  const Tensor x = from_vector<double>({-3, -0.5, 0.25, 1}, {4});
  std::printf("%s\n", to_string(softsign(x)).c_str());
  gradcheck([](const Tensors& in) { return Tensors{softsign(in[0])}; }, {x});
  std::puts("its gradient is that of numerical differences");
}
