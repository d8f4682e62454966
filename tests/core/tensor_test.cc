#include "brim/core/tensor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/memory/out_of_memory.h"

using namespace brim;

TEST_CASE("tensors know their shape, strides, dtype and device") {
  Tensor t = zeros({2, 3, 4}, {.dtype = Dtype::int32});
  CHECK(t.shape() == Shape{2, 3, 4});
  CHECK(t.strides() == Strides{12, 4, 1});
  CHECK(t.size(-1) == 4);
  CHECK(t.numel() == 24);
  CHECK(t.dtype() == Dtype::int32);
  CHECK(t.device() == Device::cpu());
  CHECK(t.is_contiguous());
  CHECK_THROWS_AS(t.size(3), ShapeError);
  CHECK(!Tensor().defined());
}

TEST_CASE("a layout must stay within the storage") {
  auto storage = zeros({16}).storage();  // 64 bytes
  auto over = [&](const Layout& layout) { return Tensor(storage, layout); };
  CHECK_NOTHROW(over({.shape = {4, 4}, .strides = {4, 1}}));
  CHECK_NOTHROW(over({.shape = {4, 4}, .strides = {0, 5}}));
  CHECK_NOTHROW(over({.shape = {16}, .strides = {-1}, .offset = 15}));
  CHECK_NOTHROW(over({.shape = {0, 99}, .strides = {99, 1}}));
  CHECK_NOTHROW(over({.shape = {8}, .strides = {1}, .dtype = Dtype::float64}));
  CHECK_THROWS_WITH_AS(over({.shape = {4, 4}, .strides = {4, 1}, .offset = 1}),
                       "tensor: shape [4,4], strides [4,1] and offset 1 of float32 reach beyond 64 "
                       "bytes",
                       ShapeError);
  CHECK_THROWS_AS(over({.shape = {17}, .strides = {1}}), ShapeError);
  CHECK_THROWS_AS(over({.shape = {9}, .strides = {1}, .dtype = Dtype::float64}), ShapeError);
  CHECK_THROWS_AS(over({.shape = {1}, .strides = {1}, .offset = -1}), ShapeError);
  CHECK_THROWS_AS(over({.shape = {16}, .strides = {-1}, .offset = 14}), ShapeError);
  CHECK_THROWS_AS(over({.shape = {4, 4}, .strides = {1}}), ShapeError);
  CHECK_THROWS_AS(over({.shape = {3}, .strides = {int64_t{1} << 62}}), ShapeError);
}

TEST_CASE("every dtype is created, converted and read back") {
  for (int i = 0; i < kDtypes; ++i) {
    auto dtype = static_cast<Dtype>(i);
    CAPTURE(to_string(dtype));
    Tensor t = full({3}, 1, {.dtype = dtype});
    CHECK(t.to_vector<double>() == std::vector<double>{1, 1, 1});
    for (int j = 0; j < kDtypes; ++j) {
      Tensor converted = convert_to(t, {.dtype = static_cast<Dtype>(j)});
      CHECK(converted.to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1});
    }
  }
}

TEST_CASE("half types round to nearest even and keep infinities and NaN") {
  CHECK(static_cast<float>(Float16(65504.0f)) == 65504.0f);
  CHECK(std::isinf(static_cast<float>(Float16(65520.0f))));
  CHECK(static_cast<float>(Float16(65519.0f)) == 65504.0f);
  CHECK(static_cast<float>(Float16(0x1.0p-24f)) == 0x1.0p-24f);
  CHECK(static_cast<float>(Float16(0x1.0p-25f)) == 0.0f);  // halfway to the even zero
  CHECK(static_cast<float>(Float16(2049.0f)) == 2048.0f);
  CHECK(static_cast<float>(Float16(2051.0f)) == 2052.0f);
  CHECK(std::isnan(static_cast<float>(Float16(NAN))));
  CHECK(std::isnan(static_cast<float>(BFloat16(NAN))));
  CHECK(static_cast<float>(BFloat16(1.00390625f)) == 1.0f);  // 1 + 2^-8, halfway
  CHECK(static_cast<float>(BFloat16(1.01171875f)) == 1.015625f);
  CHECK(static_cast<float>(BFloat16(-2.0f)) == -2.0f);
}

TEST_CASE("every float16 survives the way through float") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Float16 half;
    half.bits = static_cast<uint16_t>(bits);
    auto value = static_cast<float>(half);
    if (!std::isnan(value)) REQUIRE(Float16(value).bits == half.bits);
  }
}

TEST_CASE("views share storage; handles and tape holds are counted apart") {
  Tensor t = arange(6, {.dtype = Dtype::float32});
  Tensor view = t.view_as({2, -1});
  CHECK(view.shape() == Shape{2, 3});
  fill(view, 7);
  CHECK(t.to_vector<float>().front() == 7);
  CHECK(t.storage()->handles() == 2);
  CHECK(t.storage()->version() == view.storage()->version());
  {
    TapeHold hold(t.storage());
    CHECK(t.storage()->tape_holds() == 1);
    CHECK(t.storage()->handles() == 2);
  }
  CHECK(t.storage()->tape_holds() == 0);
  CHECK_THROWS_AS(t.view_as({4}), ShapeError);
  CHECK_THROWS_AS(t.view_as({-1, -1}), ShapeError);
}

TEST_CASE("strided copies read and write in shape order") {
  Tensor t = arange(6, {.dtype = Dtype::float32});
  Tensor transposed(t.storage(), {{3, 2}, {1, 3}, 0, Dtype::float32});
  CHECK(!transposed.is_contiguous());
  CHECK(transposed.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  Tensor target = zeros({2, 3});
  Tensor target_transposed(target.storage(), {{3, 2}, {1, 3}, 0, Dtype::float32});
  copy_into(target_transposed, transposed);
  CHECK(target.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("large strided and converting copies agree with element by element") {
  Tensor t = uniform({37, 41, 53}, -100, 100, RandomKey{1}, {.dtype = Dtype::float64});
  Tensor permuted(t.storage(), {{53, 37, 41}, {1, 41 * 53, 53}, 0, Dtype::float64});
  auto got = convert_to(permuted, {.dtype = Dtype::float32}).to_vector<float>();
  auto flat = t.to_vector<double>();
  size_t at = 0;
  for (size_t c = 0; c < 53; ++c)
    for (size_t a = 0; a < 37; ++a)
      for (size_t b = 0; b < 41; ++b)
        REQUIRE(got[at++] == static_cast<float>(flat[(a * 41 + b) * 53 + c]));
}

TEST_CASE("item wants exactly one element") {
  CHECK(full({}, 2.5).item<double>() == 2.5);
  CHECK(full({1, 1}, 3).item<int64_t>() == 3);
  int64_t exact = (int64_t{1} << 53) + 1;  // no double
  CHECK(from_vector<int64_t>({exact}, {1}).item<int64_t>() == exact);
  CHECK_THROWS_AS(zeros({2}).item<float>(), ShapeError);
}

TEST_CASE("data of another type or device is refused") {
  CHECK_THROWS_AS(zeros({2}).data<double>(), DtypeError);
  CHECK_THROWS_AS(zeros({2}, {.device = Device::meta()}).data<float>(), DeviceError);
  CHECK_THROWS_AS(zeros({2}, {.device = Device::meta()}).to_vector<float>(), DeviceError);
}

TEST_CASE("a device that is not here is refused by name") {
  CHECK_THROWS_WITH_AS(zeros({1}, {.device = Device::cuda(999)}),
                       doctest::Contains("memory: no device cuda:999: "), DeviceError);
}

TEST_CASE("tensor bytes pass through the account and come back") {
  auto account = memory::capped_host_account("direct", 1 << 16);
  memory::AccountScope scope(account);
  {
    Tensor t = zeros({100});
    CHECK(account->stats().live == 448);
    CHECK_THROWS_AS(zeros({1 << 20}), memory::OutOfMemory);
    Tensor empty_one = zeros({0, 5});
    CHECK(empty_one.numel() == 0);
    CHECK(account->stats().live == 448);
  }
  CHECK(account->stats().live == 0);
}

TEST_CASE("a tensor gives its bytes back to the account it came from") {
  auto account = memory::capped_host_account("direct");
  Tensor t;
  {
    memory::AccountScope scope(account);
    t = zeros({16});
  }
  CHECK(account->stats().live == 64);
  t = Tensor();
  CHECK(account->stats().live == 0);
}

TEST_CASE("the meta device has shapes and an account, and no bytes") {
  auto before = memory::account(Device::meta())->stats().live;
  Tensor t = zeros({1 << 20, 1 << 10}, {.device = Device::meta()});  // 4 GiB of nothing
  CHECK(memory::account(Device::meta())->stats().live - before == int64_t{1} << 32);
  CHECK(clone(t).shape() == t.shape());
}

TEST_CASE("impossible shapes are refused") {
  CHECK_THROWS_AS(zeros({-1}), ShapeError);
  CHECK_THROWS_AS(zeros({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(zeros({int64_t{1} << 62}), ShapeError);
  CHECK_THROWS_AS(from_vector<float>({1, 2}, {3}), ShapeError);
  // Bytes that fit int64, but not once they are rounded up.
  for (const char* planner : {"direct", "caching"}) {
    memory::AccountScope scope(memory::capped_host_account(planner));
    CHECK_THROWS_AS(zeros({int64_t{1} << 30, (int64_t{1} << 31) - 1}), memory::OutOfMemory);
  }
}

TEST_CASE("broadcasting follows NumPy's rules") {
  CHECK(broadcast_shapes({2, 1, 3}, {4, 1}, "add") == Shape{2, 4, 3});
  CHECK(broadcast_shapes({}, {5}, "add") == Shape{5});
  CHECK(broadcast_shapes({0, 1}, {1, 3}, "add") == Shape{0, 3});
  CHECK_THROWS_WITH_AS(broadcast_shapes({2, 3}, {4}, "add"),
                       "add: shapes [2,3] and [4] do not broadcast", ShapeError);
}

TEST_CASE("tensors print") {
  CHECK(to_string(from_vector<float>({1, 2.5f, 3, 4}, {2, 2})) ==
        "tensor(float32[2,2] on cpu) [[1, 2.5],\n [3, 4]]");
  CHECK(to_string(zeros({2}, {.device = Device::meta()})) == "tensor(float32[2] on meta)");
  CHECK(to_string(arange(1000)).find("[0, 1, 2, ..., 997, 998, 999]") != std::string::npos);
  CHECK(to_string(Tensor()) == "tensor(undefined)");
  CHECK(to_string(zeros({2, 0})) == "tensor(float32[2,0] on cpu) [[],\n []]");
  CHECK(to_string(from_vector<bool>({true, false}, {2})) == "tensor(bool[2] on cpu) [true, false]");
  CHECK(to_string(from_vector<int64_t>({(int64_t{1} << 53) + 1}, {1})) ==
        "tensor(int64[1] on cpu) [9007199254740993]");
  CHECK(to_string(from_vector<Float16>({Float16(0.1f)}, {1})) ==
        "tensor(float16[1] on cpu) [0.099976]");
  Tensor t = from_vector<int8_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor transposed(t.storage(), {{2, 2}, {1, 3}, 1, Dtype::int8});  // without the first column
  CHECK(to_string(transposed) == "tensor(int8[2,2] on cpu) [[2, 5],\n [3, 6]]");
}

TEST_CASE("random tensors depend on key and index alone") {
  auto a = normal({10}, 1, RandomKey{3}).to_vector<float>();
  auto b = normal({5, 4}, 1, RandomKey{3}).to_vector<float>();
  CHECK(std::equal(a.begin(), a.end(), b.begin()));
}

TEST_CASE("each number drawn is the function of its index, wherever a tensor ends") {
  for (int64_t size : {1, 2, 127, 128, 129, 257, 100'003}) {
    CAPTURE(size);
    const auto normals = normal({size}, 3, RandomKey{3}).to_vector<float>();
    const auto uniforms = uniform({size}, -1, 1, RandomKey{3}).to_vector<float>();
    bool same = true;
    for (uint64_t i = 0; i < normals.size(); ++i) {
      same &= normals[i] == static_cast<float>(3.0 * random_normal({3}, 0, i));
      same &= uniforms[i] == static_cast<float>(2.0 * random_uniform({3}, 0, i) - 1);
    }
    CHECK(same);
  }
}

TEST_CASE("uniform numbers fill their range, in every dtype") {
  for (Dtype dtype : {Dtype::float64, Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    std::vector<double> x =
        uniform({10'000}, 2, 5, RandomKey{4}, {.dtype = dtype}).to_vector<double>();
    auto [least, most] = std::ranges::minmax(x);
    CHECK(least >= 2);
    CHECK(least < 2.01);
    CHECK(most <= 5);  // a half type's nearest may be 5 itself
    CHECK(most > 4.98);
    double sum = 0;
    for (double value : x) sum += value;
    // The deviation of the mean is 3 / sqrt(12 * 10,000) = 0.0087.
    CHECK(std::abs(sum / 10'000 - 3.5) < 5 * 0.0087);
  }
  Tensor draws = empty({1000}, {.dtype = Dtype::float64});
  for (double low : {0.1, -0.3, 1e-9, -7.7}) {  // low + (high - low) / 2 * (1 - 1) may round below
    fill_uniform(draws, low, low + 0.7, RandomKey{5});
    CHECK(std::ranges::min(draws.to_vector<double>()) >= low);
  }
}

TEST_CASE("numbers are drawn into contiguous tensors, whatever strides their axes of size 1 have") {
  auto storage = zeros({6}).storage();
  Tensor permuted(storage, {.shape = {2, 1, 1, 3}, .strides = {3, 1, 1, 1}});
  fill_normal(permuted, 1, RandomKey{6});
  CHECK(permuted.to_vector<float>() == normal({6}, 1, RandomKey{6}).to_vector<float>());
  Tensor transposed(storage, {.shape = {3, 2}, .strides = {1, 3}});
  CHECK_THROWS_WITH_AS(fill_normal(transposed, 1, RandomKey{6}),
                       "fill_normal: expected a contiguous tensor, got strides [1,3]", ShapeError);
  CHECK_THROWS_AS(fill_uniform(transposed, 0, 1, RandomKey{6}), ShapeError);
}
