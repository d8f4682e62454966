// A folder that belongs to one process at a time: a record lock on the file ".lock" in it, which
// also says who holds it. The system gives the lock back when its holder ends, however that
// happens, so that nobody needs to remove what a crash left behind.
//
// Record locks rather than `flock`, since network file systems pass them on to their server (NFS
// always has; `flock` is local on some); owned by the open file rather than by the process (Linux's
// F_OFD_SETLK) where the system can, since those of a process are lost as soon as it closes any
// other descriptor of the same file. For readers there is nothing to do.
#pragma once

#include <string>

namespace brim::io {

class FolderLock {
 public:
  /// Throws `FileError` under `tag` for a folder that somebody holds for two more seconds, saying
  /// who: host, process and since when; and for one that cannot be written to.
  FolderLock(const std::string& folder, const char* tag);
  /// Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Why nothing keeps others out: the file system has no locks. "" where it has.
  const std::string& why_open() const { return why_open_; }

 private:
  bool is_at_path() const;
  bool take();
  void say_who();

  std::string folder_, path_;
  const char* tag_;
  int descriptor_ = -1;
  std::string why_open_;
};

}  // namespace brim::io
