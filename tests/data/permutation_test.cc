// Proves that the shuffle visits everything once, depends on its key, and has no visible bias.
#include "brim/data/permutation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

using namespace brim;
using data::Permutation;

namespace {

std::vector<int64_t> all_of(int64_t size, uint64_t key) {
  Permutation order(size, {key});
  std::vector<int64_t> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(order[i]);
  return values;
}

}  // namespace

TEST_CASE("a permutation has each number once") {
  std::vector<int64_t> sizes(300);
  std::iota(sizes.begin(), sizes.end(), 0);
  for (int64_t size : {1000, 4095, 4096, 4097, 50'000}) sizes.push_back(size);
  for (int64_t size : sizes) {
    CAPTURE(size);
    std::vector<int64_t> values = all_of(size, 5), expected(static_cast<size_t>(size));
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::sort(values);
    REQUIRE(values == expected);
  }
}

TEST_CASE("the order depends on the key alone") {
  CHECK(all_of(1000, 1) == all_of(1000, 1));
  CHECK(all_of(1000, 1) != all_of(1000, 2));
  std::vector<int64_t> sorted(1000);
  std::iota(sorted.begin(), sorted.end(), 0);
  CHECK(all_of(1000, 1) != sorted);
}

TEST_CASE("every number comes to every position about as often") {
  // Chi-squared over 7 x 7 cells of 7,000 keys: 36 degrees of freedom; 85 has a chance of 1e-5.
  // Keys as a loader makes them.
  constexpr int kSize = 7, kKeys = 7000;
  std::vector<int> counts(kSize * kSize);
  for (uint64_t key = 0; key < kKeys; ++key) {
    Permutation order(kSize, derive(RandomKey{3}, key));
    for (int i = 0; i < kSize; ++i) ++counts[static_cast<size_t>(i * kSize + order[i])];
  }
  double chi = 0, expected = kKeys / kSize;
  for (int count : counts) chi += (count - expected) * (count - expected) / expected;
  CHECK(chi < 85);
}

TEST_CASE("neighbours do not stay neighbours") {
  // A random order of n has one pair of neighbours i, i + 1 in order, on average.
  std::vector<int64_t> values = all_of(50'000, 11);
  int kept = 0;
  for (size_t i = 1; i < values.size(); ++i) kept += values[i] == values[i - 1] + 1;
  CHECK(kept < 10);
}

TEST_CASE("positions and sizes out of range are refused") {
  CHECK_THROWS_AS(Permutation(-1, {0}), ValueError);
  Permutation order(10, {0});
  CHECK_THROWS_AS(order[10], ValueError);
  CHECK_THROWS_AS(order[-1], ValueError);
}
