#include "brim/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "brim/base/error.h"

namespace brim::io {
namespace {

constexpr mode_t kReadWriteForAll = 0666;  // less what the umask takes away
constexpr size_t kMostAtOnce = size_t{1} << 30;
constexpr int kMostLinks = 40;  // as many as Linux follows

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

constexpr std::string_view kTemporary = ".tmp-";

// Of this process, so that two writers to one path do not meet.
std::string temporary_name(const std::string& target) {
  static std::atomic<int> count = 0;
  return fmt::format("{}{}{}-{}", target, kTemporary, ::getpid(), count++);
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// Where the links at `path` lead, also to a file that is not there yet; "" where they do not end.
std::string end_of_links(const std::string& path) {
  std::filesystem::path end = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(end, error)))
      return end.string();
    end = end.parent_path() / std::filesystem::read_symlink(end, error);
  }
  return "";
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, const char* tag)
    : path_(path), target_(end_of_links(path)), tag_(tag) {
  if (path.empty()) refuse(ENOENT);
  struct stat status = {};
  bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) refuse(errno);
  if (target_.empty()) refuse(ELOOP);
  if (exists) {
    expect<FileError>(S_ISREG(status.st_mode), tag_, "'{}' is not a regular file", path);
    if (::access(path.c_str(), W_OK) != 0) refuse(errno);
  }
  do {  // past names that a process of the same number left behind
    temporary_ = temporary_name(target_);
    descriptor_ =
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadWriteForAll);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) refuse(errno);
  // A file that only its owner may read stays so.
  if (exists) (void)!::fchmod(descriptor_, status.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t wrote = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) refuse(errno);
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) refuse(errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) refuse(errno);
  ::close(std::exchange(descriptor_, -1));
  // The name too, where the file system can: the file is whole without.
  int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  (void)::fsync(folder);
  ::close(folder);
}

void AtomicFile::refuse(int error) const {
  raise<FileError>(tag_, "cannot write '{}': {}", path_, std::generic_category().message(error));
}

std::string_view name_after_commit(std::string_view temporary) {
  size_t end = temporary.rfind(kTemporary);
  if (end == temporary.npos) return "";
  std::string_view numbers = temporary.substr(end + kTemporary.size());
  size_t dash = numbers.find('-');
  bool ours = dash != numbers.npos && is_digits(numbers.substr(0, dash)) &&
              is_digits(numbers.substr(dash + 1));
  return ours ? temporary.substr(0, end) : "";
}

}  // namespace brim::io
