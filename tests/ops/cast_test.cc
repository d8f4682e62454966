#include "brim/ops/cast.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, Dtype dtype) {
  return {.name = name,
          .inputs = {uniform({3, 4, 5}, -8, 8, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{cast(in[0], dtype)}; },
          .reference = [](const Tensors& in) { return Tensors{in[0]}; },
          .differentiable = is_floating(dtype),
          .batched = {0},
          .numeric = dtype == Dtype::float64};
}

OpSample to_whole(const char* name, Dtype dtype) {
  OpSample to = sample(name, dtype);
  // Of int64 the largest is 2^63 in double.
  const double most = dtype == Dtype::int8 ? 127 : 0x1.0p63;
  const double least = dtype == Dtype::int8 ? -128 : -0x1.0p63;
  to.reference = [=](const Tensors& in) {
    std::vector<double> values = in[0].to_vector<double>();
    for (double& value : values)
      value = std::isnan(value) ? 0 : std::min(std::max(std::trunc(value), least), most);
    return Tensors{from_vector(values, in[0].shape())};
  };
  return to;
}

}  // namespace

TEST_CASE("cast: spec") {
  check_op(
      {.op = "cast",
       .samples = {sample("to float32", Dtype::float32), sample("to float64", Dtype::float64),
                   sample("to float16", Dtype::float16), sample("to bfloat16", Dtype::bfloat16),
                   to_whole("to int8", Dtype::int8), to_whole("to int64", Dtype::int64)}});
}

TEST_CASE("cast: to its own dtype is the tensor itself") {
  Tensor x = ones({2});
  CHECK(cast(x, Dtype::float32).is_same(x));
}

TEST_CASE("cast: bytes become numbers, and the gradient comes back in the input's dtype") {
  Tensor bytes = from_vector<uint8_t>({0, 7, 255}, {3});
  CHECK(cast(bytes, Dtype::float32).to_vector<float>() == std::vector<float>{0, 7, 255});
  Tensor x = ones({3}, {.dtype = Dtype::float16}).set_requires_grad();
  backward(cast(x, Dtype::float32), {.grad = full({3}, 0.5)});
  CHECK(x.grad().dtype() == Dtype::float16);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0.5, 0.5, 0.5});
}

TEST_CASE("cast: to whole numbers truncates, and stops at the ends of their range") {
  const std::vector<double> x = {2.9, -2.9,  127.5,  128,      -128.5,    -129, 255.5,
                                 256, 1e300, -1e300, HUGE_VAL, -HUGE_VAL, NAN};
  Tensor all = from_vector(x, {static_cast<int64_t>(x.size())});
  // Every second element of pairs: the loop with strides.
  std::vector<double> pairs;
  for (double value : x) pairs.insert(pairs.end(), {value, 1});
  Tensor memory = from_vector(pairs, {2 * all.numel()});
  Tensor spread(memory.storage(), {.shape = all.shape(), .strides = {2}, .dtype = Dtype::float64});
  for (const Tensor& from : {all, spread})
    for (Dtype dtype : {Dtype::float64, Dtype::float32}) {
      Tensor wide = cast(from, dtype);
      CHECK(cast(wide, Dtype::int8).to_vector<double>() ==
            std::vector<double>{2, -2, 127, 127, -128, -128, 127, 127, 127, -128, 127, -128, 0});
      CHECK(cast(wide, Dtype::uint8).to_vector<double>() ==
            std::vector<double>{2, 0, 127, 128, 0, 0, 255, 255, 255, 0, 255, 0, 0});
      constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = -kMost - 1;
      CHECK(cast(wide, Dtype::int64).to_vector<int64_t>() ==
            std::vector<int64_t>{2, -2, 127, 128, -128, -129, 255, 256, kMost, kLeast, kMost,
                                 kLeast, 0});
    }
}

TEST_CASE("cast: to half types from wider ones rounds once") {
  // Just above the middle of 1 and the next float16; the middle itself is a float.
  auto to_half = [](double value, Dtype dtype) {
    return cast(from_vector<double>({value, -value}, {2}), dtype).to_vector<double>();
  };
  using Pair = std::vector<double>;
  CHECK(to_half(1 + 0x1p-11 + 0x1p-40, Dtype::float16) == Pair{1 + 0x1p-10, -1 - 0x1p-10});
  CHECK(to_half(1 + 0x1p-11 - 0x1p-40, Dtype::float16) == Pair{1, -1});
  CHECK(to_half(1 + 0x1p-11, Dtype::float16) == Pair{1, -1});
  CHECK(to_half(1 + 0x1p-8 + 0x1p-40, Dtype::bfloat16) == Pair{1 + 0x1p-7, -1 - 0x1p-7});
  CHECK(to_half(0x1p-25 + 0x1p-60, Dtype::float16) == Pair{0x1p-24, -0x1p-24});
  CHECK(to_half(65520 - 0x1p-20, Dtype::float16) == Pair{65504, -65504});
  CHECK(to_half(65520, Dtype::float16) == Pair{HUGE_VAL, -HUGE_VAL});
  CHECK(to_half(1e300, Dtype::bfloat16) == Pair{HUGE_VAL, -HUGE_VAL});
  CHECK(to_half(1e-300, Dtype::bfloat16) == Pair{0, 0});
  CHECK(std::isnan(to_half(std::nan(""), Dtype::float16)[0]));

  int64_t middle = (int64_t{1} << 60) + (int64_t{1} << 52);  // of two bfloat16
  auto from_whole = [](int64_t value) {
    return cast(from_vector<int64_t>({value}, {1}), Dtype::bfloat16).item<double>();
  };
  CHECK(from_whole(middle) == 0x1p60);
  CHECK(from_whole(middle + 1) == 0x1p60 + 0x1p53);
  CHECK(from_whole(-middle - 1) == -0x1p60 - 0x1p53);
}

}  // namespace brim
