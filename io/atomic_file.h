// Writes a file so that whoever looks sees the old one or the whole new one: the bytes go to a
// temporary file in the same folder, which takes the name with `commit`, after they are on the
// disk. Without `commit` nothing is left behind. Not for streams of events that others follow.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace brim::io {

class AtomicFile {
 public:
  /// Makes the temporary file. All errors are `FileError`s under `tag` that name the path: a folder
  /// that is missing or may not be written to, something at `path` that is no regular file or is
  /// write-protected. A link is followed, also to a file that is not there yet.
  AtomicFile(const std::string& path, const char* tag);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Gives the file its name. Nothing can be written afterwards.
  void commit();

 private:
  [[noreturn]] void refuse(int error) const;

  std::string path_, target_, temporary_;  // as it was given; where links lead; until `commit`
  const char* tag_;
  int descriptor_ = -1;
};

/// Writes `text` to `path`, whole or not at all. Throws what `AtomicFile` throws.
inline void write_file(const std::string& path, std::string_view text, const char* tag) {
  AtomicFile file(path, tag);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

/// The name that a temporary file of an `AtomicFile` was to take, both without their folder: for
/// who looks after a folder in which a writer may have been killed. "" for all other names.
std::string_view name_after_commit(std::string_view temporary);

/// Throws what making and leaving an `AtomicFile` at `path` throws: asks, before hours of work,
/// whether their result can be written. What is there stays as it is.
inline void check_writable(const std::string& path, const char* tag) { AtomicFile(path, tag); }

}  // namespace brim::io
