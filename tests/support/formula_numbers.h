// Numbers that two languages can agree on without a file: tests/golden/make_golden.py and
// tests/nn/make_names.py make the same in Python. A change here is a change there, and both scripts
// must run again. Tests that need no agreement with PyTorch draw with `uniform` or `normal`
// (core/tensor.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "brim/base/random.h"

namespace brim::testing {

/// `count` numbers in [-1, 1), from the key and their place alone: number i is the upper 53 bits of
/// mix64(FNV-1a(key) + (i + 1) * 0x9E3779B97F4A7C15). Below 0 where the highest bit is 0.
inline std::vector<double> formula_numbers(std::string_view key, int64_t count) {
  uint64_t state = 0xCBF29CE484222325ull;
  for (char c : key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) {
    state += 0x9E3779B97F4A7C15ull;
    number = static_cast<double>(mix64(state) >> 11) * 0x1p-52 - 1;
  }
  return numbers;
}

}  // namespace brim::testing
