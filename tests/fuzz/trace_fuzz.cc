// Feeds arbitrary bytes to the reader of traces: it must throw FileError or give a trace that can
// be written, read again and summed up, and hold no more than the text accounts for.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "brim/base/error.h"
#include "brim/memory/report/outliving.h"
#include "brim/memory/trace_json.h"
#include "brim/tests/support/allocation_limit.h"

namespace {

using namespace brim;

// A buffer of 25 bytes of text may have a shape, an op, a module and a file of 1,024 bytes each,
// twice over while its list grows.
constexpr size_t kBytesPerByte = 2 * 4 * 1024 / 25, kConstantBytes = 1 << 16;

memory::Trace read_limited(std::string_view text) {
  testing::AllocationLimit limit(kBytesPerByte * text.size() + kConstantBytes);
  return memory::trace_from_json(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    memory::Trace trace = read_limited({reinterpret_cast<const char*>(data), size});
    std::string text = memory::to_json(trace);
    check(memory::to_json(memory::trace_from_json(text)) == text, "a trace comes back");
    check(trace.peak_live() >= 0, "bytes add up");
    for (const memory::OutlivingAtPeak& at : memory::find_outliving(trace).sections)
      check(at.bytes <= at.peak && at.possible <= at.peak, "what is held for nothing is held");
  } catch (const FileError&) {
  }
  return 0;
}
