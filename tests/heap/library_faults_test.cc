// A convolution whose library calls run out of the program's own heap: whichever `new` fails, the
// error says that the device is out of memory, and the next convolution runs. What oneDNN takes
// from malloc itself is left alone: it does not look at the result. So is what it takes within a
// parallel region, as it does on some processors: no exception leaves one, and the program ends.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "brim/base/parallel.h"
#include "brim/memory/out_of_memory.h"
#include "brim/ops/onednn.h"
#include "brim/tests/heap/failing_heap.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("a convolution whose library gets no memory is out of memory, and runs again") {
  const int threads = num_threads();
  set_num_threads(1);
  const ConvShape shape({2, 8, 8, 16}, {16, 3, 3, 16}, {2, 6, 6, 16}, {});
  const onednn::PrimitivePtr convolution =
      onednn::find_convolution(shape, onednn::Pass::forward, /*with_bias=*/false);
  REQUIRE(convolution != nullptr);
  auto floats = [](int64_t count) { return std::vector<float>(static_cast<size_t>(count), 1.f); };
  std::vector<float> x = floats(2 * 8 * 8 * 16), weight = floats(16 * 9 * 16),
                     y = floats(2 * 6 * 6 * 16);
  std::vector<double> scratch(static_cast<size_t>(onednn::scratch_bytes(*convolution)) / 8 + 8);
  auto aligned = [](std::vector<double>& bytes) {
    auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  };
  auto run = [&] {
    onednn::run(*convolution, x.data(), weight.data(), nullptr, y.data(), aligned(scratch));
  };
  run();  // compiled once
  const std::vector<float> expected = y;
  int64_t n = 1;
  for (bool struck = true; struck; ++n) {
    CAPTURE(n);
    bool refused = false;
    {
      HeapFault fault(n);
      try {
        run();
      } catch (const memory::OutOfMemory& error) {
        refused = true;
        REQUIRE(error.shortage().requested == 0);  // the library's request, not ours
      }
      struck = fault.struck();
    }
    REQUIRE(refused == struck);
    run();
    REQUIRE(y == expected);
  }
  CHECK(n > 3);
  set_num_threads(threads);
}
