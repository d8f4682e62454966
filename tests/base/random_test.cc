#include "brim/base/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

using namespace brim;

TEST_CASE("Philox4x32-10 gives the published known answers") {
  // From the Random123 distribution's known-answer file: counter and key all zero, all one bits,
  // and the digits of pi.
  auto same = [](std::array<uint32_t, 4> got, std::array<uint32_t, 4> expected) {
    return got == expected;
  };
  CHECK(same(philox({0}, 0, 0), {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  CHECK(same(philox({~0ull}, ~0ull, ~0ull), {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  CHECK(same(philox({0x299f31d0a4093822ull}, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
             {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST_CASE("a value is a function of its address alone") {
  RandomKey key{42};
  CHECK(random_uniform(key, 3, 5) == random_uniform(key, 3, 5));
  std::set<uint32_t> seen;
  for (uint64_t sample = 0; sample < 10; ++sample)
    for (uint64_t element = 0; element < 100; ++element)
      seen.insert(random_bits(key, sample, element));
  CHECK(seen.size() == 1000);  // a clash among 1000 of 2^32 has probability 1e-4, and this is fixed
}

TEST_CASE("derived keys differ by number and by name") {
  RandomKey key{1};
  CHECK(derive(key, 1) != derive(key, 2));
  CHECK(derive(key, "conv1") != derive(key, "conv2"));
  CHECK(derive(RandomKey{2}, 1) != derive(key, 1));
}

TEST_CASE("uniform and normal numbers have their moments") {
  // Means of n draws lie within 5 standard errors (fixed numbers: this cannot flake).
  constexpr int n = 100000;
  double sum = 0, normal_sum = 0, normal_squares = 0;
  for (uint64_t i = 0; i < n; ++i) {
    double u = random_uniform({7}, 0, i), z = random_normal({8}, 0, i);
    REQUIRE((u >= 0 && u < 1));
    sum += u;
    normal_sum += z;
    normal_squares += z * z;
  }
  CHECK(std::abs(sum / n - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
  CHECK(std::abs(normal_sum / n) < 5 / std::sqrt(double{n}));
  CHECK(std::abs(normal_squares / n - 1) < 5 * std::sqrt(2.0 / n));
}

TEST_CASE("the series of Box and Muller are the logarithm and the cosine to some roundings") {
  // Of the logarithm: s has two roundings and its series one; log 2, which is twice as large at
  // most as what it is added up to, has one, the sum and the library's result have one each: 3 + 2
  // + 2. Of the cosine: the angle of at most 0.8 has two, the series three, the library's result
  // one.
  constexpr double kNear = 8 * 0x1p-53, kTurn = 6.283185307179586;
  auto check_word = [](uint32_t word) {
    const double log = std::log((word + 1.0) * 0x1p-32),
                 cosine = std::cos(kTurn * (word * 0x1p-32));
    CAPTURE(word);
    REQUIRE(std::abs(detail::log_of_word(word) - log) <= kNear * std::abs(log));
    // The argument of the library's is itself rounded: by 6.3 * 2^-53.
    REQUIRE(std::abs(detail::cos_of_word(word) - cosine) <= kNear + kTurn * 0x1p-53);
  };
  for (uint32_t i = 0; i < 100'000; ++i) check_word(random_bits({5}, 0, i));
  for (uint32_t edge = 0; edge < 8; ++edge)  // of an eighth of a turn, and of powers of two
    for (uint32_t i = 0; i < 200; ++i) check_word((edge << 29) + i - 100);
  CHECK(detail::log_of_word(~0u) == 0);
  CHECK(detail::cos_of_word(0) == 1);
  CHECK(detail::cos_of_word(1u << 30) == 0);
  CHECK(detail::cos_of_word(1u << 31) == -1);
  CHECK(std::isfinite(box_muller(0, 0)));
}

TEST_CASE("whole numbers below n cover the range evenly") {
  RandomStream stream({9});
  std::vector<int> counts(7);
  for (int i = 0; i < 7000; ++i) ++counts[stream.below(7)];
  for (int count : counts) CHECK(std::abs(count - 1000) < 5 * std::sqrt(1000.0 * 6 / 7));
}
