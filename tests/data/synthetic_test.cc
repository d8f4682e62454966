// Proves that synthetic batches have the stated shape and range and follow from the seed.
#include "brim/data/synthetic.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::data;

TEST_CASE("synthetic batches have their shape, range and seed") {
  SyntheticOptions options{.count = 200, .size = 9, .classes = 7, .seed = 3};
  SyntheticBatch batch = make_synthetic(options), same = make_synthetic(options);
  CHECK(batch.size == 9);
  CHECK(batch.pixels.size() == 200 * 9 * 9 * 3);
  CHECK(batch.labels.size() == 200);
  CHECK(batch.pixels == same.pixels);
  CHECK(batch.labels == same.labels);
  CHECK(std::ranges::min(batch.labels) == 0);
  CHECK(std::ranges::max(batch.labels) == 6);
  CHECK(std::ranges::min(batch.pixels) == 0);
  CHECK(std::ranges::max(batch.pixels) == 255);
  options.seed = 4;
  CHECK(make_synthetic(options).pixels != batch.pixels);
}

TEST_CASE("synthetic options out of range are refused") {
  CHECK_THROWS_AS(make_synthetic({.count = 0, .size = 8}), ValueError);
  CHECK_THROWS_AS(make_synthetic({.count = 1, .size = 0}), ValueError);
  CHECK_THROWS_AS(make_synthetic({.count = 1, .size = 1 << 20}), ValueError);
  CHECK_THROWS_AS(make_synthetic({.count = 1, .size = 8, .classes = 0}), ValueError);
}
