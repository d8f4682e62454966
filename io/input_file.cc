#include "brim/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "brim/base/error.h"

namespace brim::io {
namespace {

// Without O_NONBLOCK, opening a named pipe would wait for a writer that may never come.
constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

}  // namespace

InputFile::InputFile(std::string path, const char* tag) : path_(std::move(path)), tag_(tag) {
  descriptor_ = ::open(path_.c_str(), kFlags);
  if (descriptor_ < 0) refuse("open", errno);
  struct stat status = {};
  int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  ::close(descriptor_);  // there will be no object whose destructor does
  if (error != 0) refuse("examine", error);
  raise<FileError>(tag_, "'{}' is not a regular file", path_);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(int64_t offset, std::span<std::byte> to) const {
  for (size_t done = 0; done < to.size();) {
    ssize_t got = ::pread(descriptor_, to.data() + done, to.size() - done,
                          offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse("read", errno);
    expect<FileError>(got > 0, tag_, "'{}' ended at byte {}, where {} more were expected", path_,
                      offset + static_cast<int64_t>(done), to.size() - done);
    done += static_cast<size_t>(got);
  }
}

void InputFile::refuse(const char* what, int error) const {
  raise<FileError>(tag_, "cannot {} '{}': {}", what, path_, std::generic_category().message(error));
}

}  // namespace brim::io
