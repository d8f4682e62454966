// Running out of device memory while the program's own heap is full as well: whichever allocation
// of the heap fails, the error is `OutOfMemory` with its numbers.
#include <doctest/doctest.h>

#include <optional>

#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/heap/failing_heap.h"

using namespace brim;
using namespace brim::memory;
using brim::testing::HeapFault;

TEST_CASE("whatever allocation of the heap fails, running out of device memory says so") {
  auto account = capped_host_account("direct", 1 << 20);
  const std::string module = "a.long.path.of.modules.that.needs.the.heap";
  std::vector<Block> held;
  SiteScope site({.op = "conv2d", .module = &module, .file = "main.cc", .line = 3});
  for (int i = 0; i < 12; ++i) held.push_back(account->allocate(64, Category::parameters));
  int64_t plain = 0, whole = 0;
  for (int64_t heap = 0; whole == 0; ++heap) {
    CAPTURE(heap);
    auto fault = std::make_optional<HeapFault>(heap + 1, HeapFault::Options{.stays = true});
    try {
      account->allocate(1 << 21, Category::activations);
      fault.reset();
      FAIL("there was no room");
    } catch (const OutOfMemory& error) {
      fault.reset();
      std::string text = error.what();
      REQUIRE(error.shortage().requested == 1 << 21);
      REQUIRE(error.shortage().live == 12 * 64);
      REQUIRE(error.tag() == "out of memory");
      if (error.shortage().largest.empty()) {
        ++plain;
        REQUIRE(text ==
                "out of memory: the device has no room, nor the program's own heap for the details "
                "of this message");
      } else {
        ++whole;
        REQUIRE(text.find("largest live buffers:\n") != std::string::npos);
      }
    }
    REQUIRE(account->stats().live == 12 * 64);
  }
  CHECK(plain > 10);  // the message is made of many pieces
  for (const Block& block : held) account->release(block);
}
