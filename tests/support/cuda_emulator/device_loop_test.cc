// What strided kernels walk in parts is what they would walk at once (core/cuda/strided.cuh): loops
// of more elements than 32 bits count are halved until they fit, which no test could run.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "brim/tests/support/cuda_emulator/device_code.h"
// Behind what nvcc would know by itself.
#include "brim/core/cuda/strided.cuh"

using namespace brim;

namespace {

using Elements = std::vector<std::array<int64_t, 2>>;

void append(const cuda::DeviceLoop<2>& loop, Elements& to) {
  for (uint32_t i = 0; i < loop.count; ++i) to.push_back({loop.at(i).of[0], loop.at(i).of[1]});
}

Elements sorted(Elements elements) {
  std::ranges::sort(elements);
  return elements;
}

/// In parts of at most `most` elements.
void append_parts(const cuda::DeviceLoop<2>& loop, int64_t most, Elements& to) {
  if (loop.count <= most) return append(loop, to);
  const auto [first, second] = loop.halves();
  CHECK(first.count + second.count == loop.count);
  append_parts(first, most, to);
  append_parts(second, most, to);
}

}  // namespace

TEST_CASE("device loop: its parts are all of it, each element once") {
  // A broadcast over the middle axis and a transposed buffer keep three axes apart.
  const cuda::DeviceLoop<2> loop(StridedLoop<2>({5, 7, 3}, {Strides{21, 3, 1}, Strides{1, 0, 5}}));
  REQUIRE(loop.rank == 3);
  Elements whole;
  append(loop, whole);
  CHECK(whole.size() == 105);
  for (const int64_t most : {104, 20, 4, 1}) {
    CAPTURE(most);
    Elements parts;
    append_parts(loop, most, parts);
    CHECK(sorted(parts) == sorted(whole));
  }
}
