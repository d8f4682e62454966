#include "brim/nn/linear.h"

#include <cmath>

namespace brim::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) {
  expect<ValueError>(in > 0 && out > 0, "linear", "expected sizes of at least 1, got {} to {}", in,
                     out);
  Init torch = init::uniform(1 / std::sqrt(static_cast<double>(in)));
  register_parameter("weight", weight, {out, in},
                     options.weight_init ? options.weight_init : torch);
  if (options.bias)
    register_parameter("bias", bias, {out}, options.bias_init ? options.bias_init : torch);
}

Tensor Linear::forward(Tensor x) { return linear(std::move(x), weight, bias, where()); }

}  // namespace brim::nn
