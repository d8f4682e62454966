// Feeds arbitrary entries to the reader of a checkpoint's metadata, one "name=value" a line: it
// must throw FileError or give a record that is written and read again as the same, and hold no
// more than the entries account for.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "brim/base/error.h"
#include "brim/tests/support/allocation_limit.h"
#include "brim/train/checkpoint_record.h"

namespace {

using namespace brim;

// "a\n" is two nodes of trees, each with two strings.
constexpr size_t kBytesPerByte = 200, kConstantBytes = 1 << 16;

io::Metadata entries_in(std::string_view text) {
  io::Metadata entries;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    std::string_view name = line.substr(0, line.find('='));
    entries.emplace(name, line.substr(std::min(name.size() + 1, line.size())));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return entries;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  testing::AllocationLimit limit(kBytesPerByte * size + kConstantBytes);
  try {
    io::Metadata entries = entries_in({reinterpret_cast<const char*>(data), size});
    (void)checkpoint_version(entries, "fuzz");
    CheckpointRecord record = record_of(entries, "fuzz");
    check(record_of(to_metadata(record), "fuzz") == record, "a record comes back");
  } catch (const FileError&) {
  }
  return 0;
}
