// Feeds arbitrary bytes to the npy reader: it must give an array of the stated size or throw
// FileError. It reads under an account that has no more bytes than the file, rounded up, and all on
// the heap together is limited to the file and a constant.

#include <cstddef>
#include <cstdint>
#include <span>

#include "brim/base/error.h"
#include "brim/io/npy.h"
#include "brim/memory/account.h"
#include "brim/tests/support/allocation_limit.h"
#include "brim/tests/support/memory_file.h"

namespace {

using namespace brim;

// A header of 64 KiB, the longest, as text and as a name in a message.
constexpr size_t kConstantBytes = 1 << 18;

Tensor read_limited(const std::string& path, size_t file_bytes) {
  testing::AllocationLimit limit(file_bytes + kConstantBytes);
  return io::read_npy(path);
}

void read(const std::string& path, int64_t file_bytes) {
  try {
    Tensor array = read_limited(path, static_cast<size_t>(file_bytes));
    check(array.numel() * size_of(array.dtype()) <= file_bytes, "an array is in its file");
    check(array.numel() == 0 || !array.to_vector<double>().empty(), "every element can be read");
  } catch (const FileError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const testing::MemoryFile file;
  file.set({data, size});
  auto bytes = static_cast<int64_t>(size);
  // Twice: an array in Fortran order is copied when its elements are asked for in rows.
  memory::AccountScope scope(
      memory::capped_host_account("direct", 2 * (bytes + memory::kAlignment)));
  read(file.path(), bytes);
  return 0;
}
