// Feeds arbitrary bytes to the reader of lifetimes: it must give rows that are written and read
// again as they are, or throw FileError, and hold no more than a multiple of the text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "brim/base/error.h"
#include "brim/memory/plan/packing_csv.h"
#include "brim/tests/support/allocation_limit.h"

namespace {

// A row takes eight characters or more, and less than 200 bytes: its id, lifetime and line in lists
// that grow by doubling, its place in an order, and its text when it is written again.
constexpr size_t kPerByte = 25;
constexpr size_t kConstantBytes = 1 << 14;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brim;
  testing::AllocationLimit limit(2 * kPerByte * size + kConstantBytes);
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    memory::PackingRows rows = memory::parse_packing_csv(text, "fuzz");
    memory::PackingRows again =
        memory::parse_packing_csv(memory::format_packing_csv(rows), "again");
    check(rows.ids == again.ids && rows.lifetimes == again.lifetimes, "rows are read as written");
  } catch (const FileError&) {
  }
  return 0;
}
