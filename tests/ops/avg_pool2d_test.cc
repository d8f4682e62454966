#include "brim/ops/avg_pool2d.h"

#include <doctest/doctest.h>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensors reference(const Tensors& in, const AvgPool2dOptions& options) {
  const Shape& shape = in[0].shape();
  Pair kernel = options.kernel, stride = stride_or_kernel(options.stride, kernel),
       pad = options.padding;
  int64_t out_h = (shape[1] + 2 * pad.h - kernel.h) / stride.h + 1;
  int64_t out_w = (shape[2] + 2 * pad.w - kernel.w) / stride.w + 1;
  std::vector<double> x = in[0].to_vector<double>(), y;
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t i = 0; i < out_h; ++i)
      for (int64_t j = 0; j < out_w; ++j)
        for (int64_t c = 0; c < shape[3]; ++c) {
          double sum = 0, count = 0;
          for (int64_t r = 0; r < kernel.h; ++r)
            for (int64_t s = 0; s < kernel.w; ++s) {
              int64_t h = i * stride.h - pad.h + r, w = j * stride.w - pad.w + s;
              bool inside = h >= 0 && w >= 0 && h < shape[1] && w < shape[2];
              count += inside || options.count_include_pad;
              if (inside)
                sum += x[static_cast<size_t>(((n * shape[1] + h) * shape[2] + w) * shape[3] + c)];
            }
          y.push_back(sum / count);
        }
  return {from_vector(y, {shape[0], out_h, out_w, shape[3]})};
}

OpSample sample(const char* name, const Shape& shape, const AvgPool2dOptions& options) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{avg_pool2d(in[0], options)}; },
          .reference = [=](const Tensors& in) { return reference(in, options); },
          .reduction = options.kernel.h * options.kernel.w,
          .batched = {0}};
}

}  // namespace

TEST_CASE("avg_pool2d: spec") {
  check_op(
      {.op = "avg_pool2d",
       .samples = {sample("without overlap", {2, 4, 5, 70}, {.kernel = 2}),
                   sample("padding counts", {2, 9, 8, 3}, {.kernel = 3, .stride = 2, .padding = 1}),
                   sample("padding does not count", {1, 5, 5, 2},
                          {.kernel = 3, .stride = 1, .padding = 1, .count_include_pad = false}),
                   sample("not square", {1, 6, 7, 5},
                          {.kernel = {2, 4}, .stride = {1, 3}, .padding = {1, 2}}),
                   sample("many values to a mean", {1, 10, 10, 3}, {.kernel = 9}),
                   sample("stride beyond the kernel", {1, 7, 7, 2}, {.kernel = 2, .stride = 3})},
       .errors = {{[] {
                     avg_pool2d(zeros({2, 3}), {.kernel = 2});
                   },
                   "avg_pool2d: expected an input [N,H,W,C], got [2,3]"},
                  {[] {
                     avg_pool2d(zeros({1, 3, 3, 2}), {.kernel = 4});
                   },
                   "avg_pool2d: expected an input of at least the kernel [4,4]"},
                  {[] {
                     avg_pool2d(zeros({1, 3, 3, 2}), {.kernel = 2, .padding = -1});
                   },
                   "avg_pool2d: expected a padding of 0 to half of the kernel"},
                  {[] {
                     avg_pool2d(zeros({1, 3, 3, 2}, {.dtype = Dtype::int8}), {.kernel = 2});
                   },
                   "avg_pool2d: expected a floating dtype, got int8"}}});
}

}  // namespace brim
