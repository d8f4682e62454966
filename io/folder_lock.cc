#include "brim/io/folder_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "brim/base/error.h"

namespace brim::io {
namespace {

constexpr mode_t kReadWriteForAll = 0666;  // less what the umask takes away

std::string text_of(int error) { return std::generic_category().message(error); }

/// Takes the lock on the whole file: 0, or why not.
int lock(int descriptor) {
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &all) == 0) return 0;
  if (errno != EINVAL) return errno;  // the kernel, or this file system, has only the older kind
  return ::fcntl(descriptor, F_SETLK, &all) == 0 ? 0 : errno;
}

bool is_held(int error) { return error == EAGAIN || error == EACCES; }

/// Waits a little: whoever was killed holds its lock until the system has taken back its memory.
int lock_soon(int descriptor) {
  constexpr int kTries = 20;
  constexpr auto kPause = std::chrono::milliseconds(100);
  int error = lock(descriptor);
  for (int i = 0; i < kTries && is_held(error); ++i) {
    std::this_thread::sleep_for(kPause);
    error = lock(descriptor);
  }
  return error;
}

std::string myself() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S} UTC", ::getpid(), host.data(),
                     fmt::gmtime(std::time(nullptr)));
}

/// As its holder wrote it; it may be about to.
std::string holder_in(int descriptor) {
  std::array<char, 400> text{};
  const ssize_t bytes = ::pread(descriptor, text.data(), text.size(), 0);
  std::string holder(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return holder.empty() ? "another process" : holder;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, const char* tag)
    : folder_(folder), path_((std::filesystem::path(folder) / ".lock").string()), tag_(tag) {
  // Whoever held it before may have removed the file between the two calls.
  while (!take()) ::close(std::exchange(descriptor_, -1));
  if (why_open_.empty()) say_who();
}

bool FolderLock::take() {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kReadWriteForAll);
  expect<FileError>(descriptor_ >= 0, tag_, "cannot write '{}': {}", path_, text_of(errno));
  const int error = lock_soon(descriptor_);
  if (is_held(error)) {
    const std::string holder = holder_in(descriptor_);
    ::close(std::exchange(descriptor_, -1));
    raise<FileError>(tag_, "'{}' is in use by {}: take another folder, or wait until that ends",
                     folder_, holder);
  }
  if (error != 0) why_open_ = text_of(error);
  return error != 0 || is_at_path();
}

bool FolderLock::is_at_path() const {
  struct stat mine = {}, there = {};
  return ::fstat(descriptor_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

// For people: a full disk is no reason not to go on.
void FolderLock::say_who() {
  const std::string text = myself();
  if (::ftruncate(descriptor_, 0) == 0) (void)!::pwrite(descriptor_, text.data(), text.size(), 0);
}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  if (why_open_.empty()) ::unlink(path_.c_str());  // while it is held, so it is no other's
  ::close(descriptor_);
}

}  // namespace brim::io
