// Feeds arbitrary bytes to the safetensors reader: it must give tensors of the stated sizes, which
// cover the file, or throw FileError. Tensors are read under an account that has no more bytes than
// the file, rounded up, and all on the heap together is limited to the file and a constant.

#include <cstddef>
#include <cstdint>
#include <span>

#include "brim/base/error.h"
#include "brim/io/safetensors.h"
#include "brim/io/tensor_bytes.h"
#include "brim/memory/account.h"
#include "brim/tests/support/allocation_limit.h"
#include "brim/tests/support/memory_file.h"

namespace {

using namespace brim;

// Descriptions of tensors, of which a file of a few kilobytes has at most a hundred: one is smaller
// than 300 bytes, in a list that grows by doubling, beside its text.
constexpr size_t kConstantBytes = 1 << 18;

void read_all(const std::string& path, int64_t file_bytes) {
  try {
    io::SafetensorsFile file(path);
    int64_t bytes = 0;
    for (const io::TensorInfo& tensor : file.tensors()) {
      check(file.find(tensor.name) == &tensor, "every tensor is found");
      bytes += static_cast<int64_t>(io::bytes_of(file.read(tensor.name)).size());
    }
    check(bytes <= file_bytes, "tensors have no more bytes than the file");
  } catch (const FileError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const testing::MemoryFile file;
  file.set({data, size});
  auto bytes = static_cast<int64_t>(size);
  memory::AccountScope scope(memory::capped_host_account("direct", bytes + memory::kAlignment));
  testing::AllocationLimit limit(size + kConstantBytes);
  read_all(file.path(), bytes);
  return 0;
}
