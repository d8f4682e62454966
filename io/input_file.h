// A file that may come from anywhere, read in parts: the path may name a folder, a device or a
// pipe, and the file may shrink while it is read. Never more than the part that is asked for is in
// memory. Whole small files: data/read_file.h. Formats: io/safetensors.h, io/npy.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace brim::io {

class InputFile {
 public:
  /// Opens the regular file at `path`. Its errors, and those of `read`, are `FileError`s under
  /// `tag` that name the path. A named pipe that nobody writes to does not block.
  InputFile(std::string path, const char* tag);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  const char* tag() const { return tag_; }
  /// Bytes that the file had when it was opened.
  int64_t size() const { return size_; }
  /// Fills `to` with the bytes from `offset` on; throws when the file ends before.
  void read(int64_t offset, std::span<std::byte> to) const;

 private:
  [[noreturn]] void refuse(const char* what, int error) const;

  std::string path_;
  const char* tag_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace brim::io
