// Histograms of exponents count each value once, in every floating type and layout, and say of a
// narrower type what a cast to it does.
#include "brim/train/exponents.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/ops/cast.h"
#include "brim/tests/support/errors.h"

using namespace brim;

namespace {

ExponentHistogram histogram_of(const Tensor& tensor) {
  ExponentHistogram histogram;
  histogram.add(tensor);
  return histogram;
}

/// Numbers of both signs with exponents from `low` to below `high`, and mantissas that no rounding
/// takes to the next power of two.
std::vector<float> spread(int count, int low, int high) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const double mantissa = 1.001 + 0.9 * ((i * 37) % 101) / 101.0;
    values.push_back(static_cast<float>((i % 2 == 0 ? 1 : -1) *
                                        std::ldexp(mantissa, low + (i * 13) % (high - low))));
  }
  return values;
}

}  // namespace

TEST_CASE("each value counts once, under its power of two") {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto histogram =
      histogram_of(from_vector<float>({0, -0.0f, 1, -1.99f, 2, 0x1p-126f, 0x1p-127f, 0x1p-149f,
                                       3e38f, infinity, -infinity, std::nanf("")},
                                      {12}));
  CHECK(histogram.zeros() == 2);
  CHECK(histogram.not_finite() == 3);
  CHECK(histogram.count(0) == 2);
  CHECK(histogram.count(1) == 1);
  CHECK(histogram.count(-126) == 1);
  CHECK(histogram.count(ExponentHistogram::kLeast) == 2);
  CHECK(histogram.count(127) == 1);
  CHECK(histogram.total() == 12);
  CHECK(histogram.lowest() == ExponentHistogram::kLeast);
  CHECK(histogram.highest() == 127);
}

TEST_CASE("all floating types count alike, whole numbers not at all") {
  const std::vector<float> values = spread(1000, -14, 15);
  const Tensor wide = from_vector(values, {1000});
  for (Dtype dtype : {Dtype::float16, Dtype::bfloat16, Dtype::float64}) {
    CAPTURE(to_string(dtype));
    const auto histogram = histogram_of(cast(wide, dtype));
    for (int e = -14; e < 15; ++e) CHECK(histogram.count(e) == histogram_of(wide).count(e));
    CHECK(histogram.total() == 1000);
  }
  CHECK(histogram_of(ones({8}, {.dtype = Dtype::int32})).total() == 0);
  CHECK(histogram_of(Tensor()).total() == 0);
  CHECK(histogram_of(zeros({8}, {.device = Device::meta()})).total() == 0);
}

TEST_CASE("views count what they show, with threads and without") {
  const Tensor whole = from_vector(spread(64 * 1024, -30, 10), {256, 256});
  const Tensor turned(whole.storage(), {{256, 256}, {1, 256}, 0, Dtype::float32}),
      part(whole.storage(), {{256, 97}, {256, 1}, 3, Dtype::float32});
  REQUIRE_FALSE(part.is_contiguous());
  ExponentHistogram copied;
  copied.add(clone(part));
  for (int e = -30; e < 10; ++e) {
    CHECK(histogram_of(turned).count(e) == histogram_of(whole).count(e));
    CHECK(histogram_of(part).count(e) == copied.count(e));
  }
  CHECK(histogram_of(part).total() == 256 * 97);
}

TEST_CASE("shares are those that a cast to the type has") {
  for (Dtype type : {Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(to_string(type));
    const FloatRange range = range_of(type);
    const int low = std::max(range.smallest - 8, -125), high = std::min(range.largest + 6, 127);
    const std::vector<float> values = spread(20000, low, high);
    const auto there = cast(from_vector(values, {20000}), type);
    const auto rounded = cast(there, Dtype::float32).to_vector<float>();
    double lost = 0, subnormal = 0, over = 0;
    for (float x : rounded) {
      lost += x == 0;
      subnormal += x != 0 && std::abs(x) < std::ldexp(1.0f, range.smallest_normal);
      over += std::isinf(x);
    }
    const RangeShares shares = histogram_of(from_vector(values, {20000})).shares(range);
    CHECK(shares.lost == lost / 20000);
    CHECK(shares.subnormal == subnormal / 20000);
    CHECK(shares.over == over / 20000);
    CHECK((type == Dtype::float16) == (shares.lost > 0));
  }
}

TEST_CASE("near the end are those within a factor of 8, whatever their sign") {
  const auto histogram =
      histogram_of(from_vector<float>({8191, 8192, -16384, 65504, 65536, 1}, {6}));
  const RangeShares shares = histogram.shares(range_of(Dtype::float16));
  CHECK(shares.near == 3.0 / 6);
  CHECK(shares.over == 1.0 / 6);
  // What float32 has no normal numbers for, bfloat16 has not either.
  const auto tiny = histogram_of(from_vector<float>({0x1p-126f, 0x1p-127f, -0x1p-130f, 1}, {4}));
  CHECK(tiny.shares(range_of(Dtype::bfloat16)).subnormal == 2.0 / 4);
}

TEST_CASE("a shift is a loss scale") {
  const std::vector<float> values = spread(1000, -40, -20);
  std::vector<float> scaled = values;
  for (float& x : scaled) x *= 1024;
  const FloatRange range = range_of(Dtype::float16);
  const RangeShares shifted = histogram_of(from_vector(values, {1000})).shares(range, 10),
                    real = histogram_of(from_vector(scaled, {1000})).shares(range);
  CHECK(shifted.lost == real.lost);
  CHECK(shifted.subnormal == real.subnormal);
  CHECK(shifted.lost < histogram_of(from_vector(values, {1000})).shares(range).lost);
}

TEST_CASE("nothing has no shares; a type without a range is refused") {
  const RangeShares none = ExponentHistogram().shares(range_of(Dtype::float16));
  CHECK(none.lost + none.subnormal + none.near + none.over == 0);
  CHECK_FALSE(ExponentHistogram().lowest());
  CHECK_THROWS_AS(range_of(Dtype::int8), DtypeError);
}
