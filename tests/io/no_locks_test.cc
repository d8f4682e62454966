// Proves that a folder is taken also where its file system has no locks, that this is told, and
// that nothing keeps another process out then. The system's `fcntl` is one here that says so.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>

#include "brim/io/folder_lock.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

int asked = 0;

}  // namespace

extern "C" int fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);
  va_end(more);
  if (command != F_OFD_SETLK && command != F_SETLK)
    return static_cast<int>(::syscall(SYS_fcntl, descriptor, command, argument));
  ++asked;
  errno = command == F_OFD_SETLK ? EINVAL : ENOLCK;
  return -1;
}

TEST_CASE("a file system without locks lets everybody in, and says why") {
  TempFolder folder;
  {
    io::FolderLock first(folder.path(), "here");
    CHECK(asked == 2);  // also the kind that older systems have
    CHECK(contains(first.why_open(), "No locks available"));
    io::FolderLock second(folder.path(), "here");
    CHECK(asked == 4);
    CHECK(second.why_open() == first.why_open());
  }
  // It may be another's, who does not know of it either.
  CHECK(std::filesystem::exists(folder.path() + "/.lock"));
}
