// Feeds arbitrary bytes to the npy reader: it must give an array of the stated size or throw
// FileError. It reads under an account that has no more bytes than the file, rounded up; what the
// header takes on the heap is watched with -malloc_limit_mb.

#include <cstddef>
#include <cstdint>
#include <span>

#include "brim/base/error.h"
#include "brim/io/npy.h"
#include "brim/memory/account.h"
#include "brim/tests/support/memory_file.h"

namespace {

using namespace brim;

void read(const std::string& path, int64_t file_bytes) {
  try {
    Tensor array = io::read_npy(path);
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
