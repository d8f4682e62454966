// Feeds arbitrary bytes to the reader of plans: it must throw FileError or give a plan that keeps
// its promises, has the same text again, and hold no more than the text accounts for.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "brim/base/error.h"
#include "brim/memory/plan/check_plan.h"
#include "brim/memory/plan/plan_json.h"
#include "brim/tests/support/allocation_limit.h"

namespace {

using namespace brim;

// "[]," is a value, a list and its place in a list that grows.
constexpr size_t kBytesPerByte = 100, kConstantBytes = 1 << 16;

memory::Plan read_limited(std::string_view text) {
  testing::AllocationLimit limit(kBytesPerByte * text.size() + kConstantBytes);
  return memory::plan_from_json(text, "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    memory::Plan plan = read_limited({reinterpret_cast<const char*>(data), size});
    memory::check_plan(plan);
    check(memory::plan_from_json(memory::to_json(plan), "fuzz") == plan, "a plan comes back");
  } catch (const FileError&) {
  }
  return 0;
}
