#include "brim/ops/normalize.h"

#include <doctest/doctest.h>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor bytes(const Shape& shape) {
  std::vector<uint8_t> values(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint8_t>(random_bits(RandomKey{5}, 0, i));
  return from_vector(values, shape);
}

Tensor reference(const Tensor& x, const NormalizeOptions& options) {
  std::vector<double> values = x.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    size_t c = i % options.mean.size();
    values[i] = (values[i] / 255 - options.mean[c]) / options.std[c];
  }
  return from_vector(values, x.shape());
}

OpSample sample(const char* name, const Shape& shape, Dtype dtype) {
  NormalizeOptions options{.dtype = dtype};
  for (int64_t c = 0; c < shape.back(); ++c) {
    options.mean.push_back(0.4f + 0.01f * static_cast<float>(c));
    options.std.push_back(0.22f + 0.01f * static_cast<float>(c));
  }
  return {.name = name,
          .inputs = {bytes(shape)},
          .run = [=](const Tensors& in) { return Tensors{normalize(in[0], options)}; },
          .reference = [=](const Tensors& in) { return Tensors{reference(in[0], options)}; },
          .differentiable = false,
          .batched = {0},
          .magnitude = 1 / 0.22};  // x * scale, which the mean may cancel
}

}  // namespace

TEST_CASE("normalize: spec") {
  NormalizeOptions rgb{.mean = {0.5f, 0.5f, 0.5f}, .std = {0.25f, 0.25f, 0.25f}};
  auto deviation = [](float std) { return NormalizeOptions{.mean = {0}, .std = {std}}; };
  Tensor x = bytes({1, 2, 2, 3}), gray = bytes({1, 2, 2, 1});
  check_op({.op = "normalize",
            .samples = {sample("colour", {2, 5, 7, 3}, Dtype::float32),
                        sample("gray", {1, 9, 9, 1}, Dtype::float32),
                        sample("sixteen channels", {1, 3, 7, 16}, Dtype::float32),
                        sample("float64", {1, 4, 4, 3}, Dtype::float64),
                        sample("float16", {1, 4, 4, 3}, Dtype::float16),
                        sample("bfloat16", {1, 4, 4, 3}, Dtype::bfloat16)},
            .errors = {{[=] {
                          normalize(zeros({1, 2, 2, 3}), rgb);
                        },
                        "normalize: expected uint8, got float32"},
                       {[=] {
                          normalize(bytes({2, 2, 3}), rgb);
                        },
                        "normalize: expected [N,H,W,C], got [2,2,3]"},
                       {[=] { normalize(gray, rgb); },
                        "normalize: expected 1 means and deviations for [1,2,2,1], got 3 and 3"},
                       {[=] {
                          normalize(bytes({1, 1, 1, 17}), rgb);
                        },
                        "normalize: expected at most 16 channels, got [1,1,1,17]"},
                       {[=] { normalize(gray, deviation(0)); },
                        "normalize: expected deviations above 0, got 0"},
                       {[=] {
                          NormalizeOptions whole = rgb;
                          whole.dtype = Dtype::int32;
                          normalize(x, whole);
                        },
                        "normalize: expected a floating dtype for the result, got int32"}},
            .dtypes = {Dtype::float32}});
}

}  // namespace brim
