#include "brim/nn/checkpoint_sequential.h"

#include "brim/autograd/checkpoint.h"

namespace brim::nn {

Tensor checkpoint_sequential(Sequential& modules, int64_t segments, Tensor x, Where where) {
  const auto count = static_cast<int64_t>(modules.size());
  expect<ValueError>(segments > 0 && segments <= count, "checkpoint_sequential",
                     "expected 1 to {} segments of as many modules, got {}", count, segments);
  auto run = [&](int64_t first, int64_t last, Tensor y) {
    for (int64_t i = first; i < last; ++i)
      y = modules[static_cast<size_t>(i)](std::move(y), where);
    return y;
  };
  for (int64_t i = 0; i < segments; ++i) {
    const int64_t first = count * i / segments, last = count * (i + 1) / segments;
    x = i + 1 < segments
            ? autograd::checkpoint(
                  [&](Tensor y) { return run(first, last, std::move(y)); }, std::move(x))
            : run(first, last, std::move(x));
  }
  return x;
}

}  // namespace brim::nn
