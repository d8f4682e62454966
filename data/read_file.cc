#include "brim/data/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "brim/base/bytes.h"
#include "brim/base/error.h"

namespace brim::data {
namespace {

constexpr const char* kTag = "read_file";

[[noreturn]] void refuse(const std::string& path, const char* what, int error) {
  raise<FileError>(kTag, "cannot {} '{}': {}", what, path, std::generic_category().message(error));
}

class Descriptor {
 public:
  // Without O_NONBLOCK, opening a named pipe would wait for a writer that may never come.
  explicit Descriptor(const std::string& path)
      : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (value_ < 0) refuse(path, "open", errno);
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace

void read_file(const std::string& path, int64_t max_bytes, std::vector<uint8_t>& bytes) {
  Descriptor file(path);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) refuse(path, "examine", errno);
  expect<FileError>(S_ISREG(status.st_mode), kTag, "'{}' is not a regular file", path);
  int64_t size = status.st_size;
  expect<FileError>(size <= max_bytes, kTag, "'{}' has {}, more than the limit of {}", path,
                    format_bytes(size), format_bytes(max_bytes));
  bytes.resize(static_cast<size_t>(size));
  for (size_t done = 0; done < bytes.size();) {
    ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, "read", errno);
    expect<FileError>(got > 0, kTag, "'{}' ended after {} of {} bytes", path, done, size);
    done += static_cast<size_t>(got);
  }
}

std::vector<uint8_t> read_file(const std::string& path, int64_t max_bytes) {
  std::vector<uint8_t> bytes;
  read_file(path, max_bytes, bytes);
  return bytes;
}

}  // namespace brim::data
