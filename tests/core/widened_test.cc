// Halves run through float32 kernels with the numbers that one run over all would give, and where a
// kernel works by rows, with scratch for a few of them.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "brim/core/kernels.h"
#include "brim/memory/account.h"

using namespace brim;

namespace {

/// out[r] = factor * in[r] + bias, of rows; counts its runs. Asks for a byte of scratch for each
/// row of the slice, and a smaller slice for more, as libraries do.
struct Affine {
  float factor = 1;
};
constexpr Kernel<Affine> whole{"test_affine_whole"},
    by_rows{.name = "test_affine_by_rows", .by_rows = {.in = 0b01, .out = 0b1}},
    adds{.name = "test_affine_adds", .updates = true, .by_rows = {.in = 0b01, .out = 0b1}};
constexpr Kernel<Affine> flat{.name = "test_affine_flat", .by_rows = kElementwise1};

int runs = 0;

template <bool kAdds>
void affine(const KernelCall& call, const Affine& attributes) {
  ++runs;
  const View &x = call.in[0], &y = call.out[0];
  CHECK(x.shape == y.shape);
  const bool has_bias = call.in.size() > 1 && call.in[1].present;
  const int64_t channels = has_bias ? call.in[1].numel() : 1;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const float bias = has_bias ? call.in[1].as<float>()[i % channels] : 0;
    const float value = attributes.factor * x.as<float>()[i] + bias;
    y.as<float>()[i] = (kAdds ? y.as<float>()[i] : 0) + value;
  }
  if (y.numel() > 0 && y.shape.size() == 2 && y.shape[0] == 1)
    static_cast<char*>(call.scratch)[4095] = 1;  // what a single row asked for is there
}
int64_t affine_scratch(const KernelCall& call, const Affine&) {
  return call.out[0].shape[0] == 1 ? 4096 : call.out[0].shape[0];
}

const bool registered = [] {
  for (const auto& kernel : {whole, by_rows, flat})
    register_kernel(kernel, DeviceType::cpu, Dtype::float32, affine<false>, affine_scratch);
  register_kernel(adds, DeviceType::cpu, Dtype::float32, affine<true>, affine_scratch);
  return true;
}();

Tensor numbers(const Shape& shape, Dtype dtype) {
  return uniform(shape, -2, 2, RandomKey{7}, {.dtype = dtype});
}

struct Ran {
  std::vector<float> values;
  int runs = 0;
  int64_t scratch = 0;
};

Ran run(const Kernel<Affine>& kernel, Tensor x, Tensor bias, Tensor y) {
  auto account = memory::account(x.device());
  account->reset_peak();
  const int64_t before = account->stats().live;
  runs = 0;
  launch(kernel, {x, bias}, {y}, {.factor = 3});
  return {x.device().is_meta() ? std::vector<float>{} : y.to_vector<float>(), runs,
          account->stats().peak_live - before};
}

constexpr int64_t kRows = 9, kChannels = int64_t{1} << 17;  // two rows are 2 MiB of copies

}  // namespace

TEST_CASE("by rows the numbers are the same, in fewer bytes of scratch") {
  REQUIRE(registered);
  for (Dtype half : {Dtype::bfloat16, Dtype::float16}) {
    const Tensor x = numbers({kRows, kChannels}, half), bias = numbers({kChannels}, half);
    const Ran all = run(whole, x, bias, empty_like(x)), some = run(by_rows, x, bias, empty_like(x));
    CHECK(all.values == some.values);
    CHECK(all.runs == 1);
    CHECK(some.runs == 5);  // of 2, 2, 2, 2 and 1
    const int64_t row = 4 * kChannels;
    CHECK(all.scratch >= (2 * kRows + 1) * row);
    CHECK(some.scratch == 5 * row + 4096);  // of x and y two rows, the bias, what one row asks for
    // The meta device asks for as much.
    const TensorOptions meta{.dtype = half, .device = Device::meta()};
    const Tensor x_there = empty(x.shape(), meta), y_there = empty(x.shape(), meta);
    CHECK(run(by_rows, x_there, empty(bias.shape(), meta), y_there).scratch == some.scratch);
  }
}

TEST_CASE("elementwise kernels take any stretch, also of one long row, and may work in place") {
  const Tensor x = numbers({1, 5 * kChannels + 3}, Dtype::bfloat16);
  const Ran all = run(whole, x, {}, empty_like(x)), some = run(flat, x, {}, empty_like(x));
  CHECK(all.values == some.values);
  CHECK(some.runs == 3);
  CHECK(run(flat, x, {}, x).values == all.values);
}

TEST_CASE("outputs that are read are widened row by row, too") {
  const Tensor x = numbers({kRows, kChannels}, Dtype::bfloat16);
  Tensor y = full(x.shape(), 0.5, {.dtype = Dtype::bfloat16});
  const Ran added = run(adds, x, {}, y);
  CHECK(added.runs > 1);
  const std::vector<float> from = x.to_vector<float>();
  for (size_t i = 0; i < from.size(); i += 10'007)
    CHECK(added.values[i] == static_cast<float>(BFloat16(0.5f + 3 * from[i])));
}

TEST_CASE("what is not laid out in rows runs whole") {
  const Tensor memory = numbers({4, 6}, Dtype::bfloat16);
  const Tensor transposed(memory.storage(),
                          {.shape = {6, 4}, .strides = {1, 6}, .dtype = Dtype::bfloat16});
  const Ran ran = run(by_rows, transposed, {}, empty({6, 4}, {.dtype = Dtype::bfloat16}));
  CHECK(ran.runs == 1);
  const std::vector<float> from = transposed.to_vector<float>();
  for (size_t i = 0; i < from.size(); ++i)
    CHECK(ran.values[i] == static_cast<float>(BFloat16(3 * from[i])));
  const Tensor none = empty({0, 4}, {.dtype = Dtype::bfloat16});
  CHECK(run(by_rows, none, {}, empty_like(none)).values.empty());
}

TEST_CASE("conversions of rows are those of single elements") {
  std::vector<float> values;
  for (uint32_t i = 0; i < 1 << 16; ++i)
    for (float by : {1.0f, 1.0000001f, 0.99999994f})
      values.push_back(static_cast<float>(std::bit_cast<Float16>(static_cast<uint16_t>(i))) * by);
  for (uint32_t i = 0; i < 1 << 16; ++i) {
    values.push_back(std::bit_cast<float>(i << 16 | 0x7FFF));
    values.push_back(std::bit_cast<float>(i << 16 | 0x8000));
    values.push_back(std::bit_cast<float>(i << 16 | 0x8001));
  }
  const Tensor wide = from_vector(values, {std::ssize(values)});
  auto check = [&]<class Half>(Half) {
    const Tensor low = convert_to(wide, {.dtype = dtype_of<Half>});
    const auto* got = low.data<Half>();
    const Tensor back = convert_to(low, {.dtype = Dtype::float32});
    int64_t wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const Half expected(values[i]);
      const auto float_of = static_cast<float>(expected);
      const bool is_nan = std::isnan(values[i]);
      const bool same =
          is_nan ? std::isnan(static_cast<float>(got[i])) : got[i].bits == expected.bits;
      const float returned = back.data<float>()[i];
      wrong += same && (is_nan ? std::isnan(returned) : returned == float_of) ? 0 : 1;
    }
    CHECK(wrong == 0);
  };
  check(BFloat16());
  check(Float16());
}
