// A file with a path but without a disk, for fuzz targets of readers that want a path: thousands of
// inputs a second. Tests that keep several files, or watch a folder, use temp_folder.h.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "brim/base/error.h"

namespace brim::testing {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    check(descriptor_ >= 0, "the system has memory files");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Valid in this process.
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  /// Replaces what is in the file.
  void set(std::span<const uint8_t> bytes) const {
    bool done = ::ftruncate(descriptor_, 0) == 0;
    for (size_t at = 0; done && at < bytes.size();) {
      ssize_t wrote =
          ::pwrite(descriptor_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      done = wrote > 0;
      if (done) at += static_cast<size_t>(wrote);
    }
    check(done, "a memory file takes its bytes");
  }

 private:
  int descriptor_;
};

}  // namespace brim::testing
