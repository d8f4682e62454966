// Packs in the emulator: what a GPU would stop at is an error, and loops over buffers that begin
// anywhere do not get there.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "brim/tests/support/cuda_emulator/device_code.h"
// After what makes CUDA's source plain C++.
#include "brim/core/cuda/vector.cuh"

using namespace brim;
using namespace brim::cuda;

namespace {

struct Twice {
  template <class T>
  __device__ T operator()(T x) const {
    return x + x;
  }
};

/// The number of the element beside its value.
struct Numbered {
  struct Element {
    int64_t i;
    __device__ float operator()(float x, float none) const {
      return x * 1000 + static_cast<float>(i) + none;
    }
    __device__ void next() { ++i; }
  };
  __device__ Element from(int64_t i) const { return {i}; }
};

}  // namespace

TEST_CASE("packs: one that is not aligned is an error") {
  alignas(kPackBytes) float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  emulator::run("aligned", 1, 1, 0, [&] { Pack<float>::load(numbers).store(numbers + 4); });
  CHECK(numbers[7] == 4);
  const auto load = [&] { Pack<float>::load(numbers + 1); };
  const auto store = [&] { Pack<float>().store(numbers + 2); };
  CHECK_THROWS_AS(emulator::run("load", 1, 1, 0, load), InternalError);
  CHECK_THROWS_AS(emulator::run("store", 1, 1, 0, store), InternalError);
}

TEST_CASE("packs: as many as are whole, where all buffers are aligned") {
  alignas(kPackBytes) Float16 halves[32];
  CHECK(packs_in<Float16>(7, {halves}) == 0);
  CHECK(packs_in<Float16>(8, {halves, halves + 8}) == 1);
  CHECK(packs_in<Float16>(24, {halves, nullptr}) == 3);
  CHECK(packs_in<Float16>(24, {halves, halves + 4}) == 0);
}

TEST_CASE("packs: a loop visits every element once, from any beginning and to any end") {
  alignas(kPackBytes) float x[40], y[40];
  for (int64_t shift : {0, 1, 3, 4})
    for (int64_t count : {0, 1, 3, 4, 5, 33}) {
      std::iota(x, x + 40, 1.0f);
      std::fill(y, y + 40, -1.0f);
      const float* none = nullptr;
      map_from({}, count, Numbered(), "numbered", y + shift, static_cast<const float*>(x) + shift,
               none);
      map({}, count, Twice(), "twice", y + shift, static_cast<const float*>(y) + shift);
      for (int64_t i = 0; i < 40; ++i) {
        const bool inside = i >= shift && i < shift + count;
        CHECK(y[i] == (inside ? 2 * (x[i] * 1000 + static_cast<float>(i - shift)) : -1.0f));
      }
    }
}
