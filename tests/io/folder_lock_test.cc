// Proves that one process at a time holds a folder, that the next hears who it is, and that nothing
// of a holder that died stands in the way.
#include "brim/io/folder_lock.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

std::string refusal(const std::string& folder) {
  return error_text<FileError>([&] { io::FolderLock second(folder, "here"); });
}

/// A process that holds the folder until it is killed.
struct Holder {
  explicit Holder(const std::string& folder) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process = ::fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      io::FolderLock lock(folder, "here");
      (void)!::write(ends[1], "x", 1);
      for (;;) ::pause();
    }
    char got = 0;
    REQUIRE(::read(ends[0], &got, 1) == 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Holder() { kill(); }
  void kill() {
    if (process <= 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = 0;
  }
  pid_t process = 0;
};

}  // namespace

TEST_CASE("a second holder is refused, and told who the first is") {
  TempFolder folder;
  Holder holder(folder.path());
  const std::string text = refusal(folder.path());
  CAPTURE(text);
  CHECK(contains(text, "here: '" + folder.path() + "' is in use by process " +
                           std::to_string(holder.process) + " on "));
  CHECK(contains(text, " since 20"));
  CHECK(contains(text, " UTC"));
  CHECK(refusal(folder.path()) == text);  // asking leaves it held
}

TEST_CASE("who was killed holds nothing") {
  TempFolder folder;
  Holder holder(folder.path());
  holder.kill();
  CHECK(std::filesystem::exists(folder.path() + "/.lock"));
  io::FolderLock next(folder.path(), "here");
  CHECK(next.why_open() == "");
  CHECK(contains(refusal(folder.path()), "process " + std::to_string(::getpid()) + " on "));
}

TEST_CASE("a lock that ends leaves no file, and reading the file does not end it") {
  TempFolder folder;
  {
    io::FolderLock lock(folder.path(), "here");
    { std::ifstream reader(folder.path() + "/.lock"); }
    CHECK(refusal(folder.path()) != "");
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  io::FolderLock again(folder.path(), "here");
}

TEST_CASE("many that come and go never hold it together") {
  TempFolder folder;
  std::atomic<int> holders = 0, held = 0;
  std::atomic<bool> together = false;
  auto come_and_go = [&] {
    for (int i = 0; i < 200; ++i) {
      try {
        io::FolderLock lock(folder.path(), "here");
        if (++holders > 1) together = true;
        ++held;
        std::this_thread::yield();
        --holders;
      } catch (const FileError&) {
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(come_and_go);
  for (std::thread& thread : threads) thread.join();
  CHECK(!together);
  CHECK(held > 1);
}

TEST_CASE("a folder that is not there is refused") {
  TempFolder folder;
  CHECK(contains(refusal(folder.path() + "/none"),
                 "cannot write '" + folder.path() + "/none/.lock'"));
}
