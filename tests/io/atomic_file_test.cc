// Proves that a file which is written shows its old bytes until it is whole, that nothing else is
// left behind, and that a place which cannot be written to is named before anything is done.
#include "brim/io/atomic_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/full_disk.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using io::AtomicFile;
using testing::contains;
using testing::error_text;
using testing::text_of;

namespace {

namespace fs = std::filesystem;

void write(AtomicFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text.data(), text.size())));
}

int files_in(const testing::TempFolder& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++count;
  return count;
}

}  // namespace

TEST_CASE("the old file is there until the new one is whole") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.txt";
  {
    AtomicFile file(path, "here");
    write(file, "first");
    CHECK(!fs::exists(path));
    file.commit();
  }
  CHECK(text_of(path) == "first");
  {
    AtomicFile file(path, "here");
    write(file, "sec");
    write(file, "ond");
    CHECK(text_of(path) == "first");
    file.commit();
    CHECK(text_of(path) == "second");
  }
  CHECK(files_in(folder) == 1);
}

TEST_CASE("without commit everything stays as it was") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.txt";
  { AtomicFile(path, "here"); }
  CHECK(files_in(folder) == 0);
  folder.write("a.txt", std::vector<uint8_t>{'x'});
  io::check_writable(path, "here");
  CHECK(text_of(path) == "x");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a disk that fills up leaves the old file, and no other") {
  testing::TempFolder folder;
  std::string path = folder.write("a.txt", std::vector<uint8_t>{'x'});
  std::string text = error_text<FileError>([&] {
    AtomicFile file(path, "here");
    testing::FullDisk full(10);
    write(file, "twelve bytes");
    file.commit();
  });
  CHECK(contains(text, "here: cannot write '" + path + "'"));
  CHECK(text_of(path) == "x");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("places that cannot be written to are named") {
  testing::TempFolder folder;
  auto refused = [](const std::string& path) {
    std::string text = error_text<FileError>([&] { io::check_writable(path, "here"); });
    CHECK(contains(text, path));
    return text;
  };
  CHECK(contains(refused(folder.path() + "/no/such/a.txt"), "No such file"));
  CHECK(contains(refused(folder.path()), "not a regular file"));
  CHECK(contains(refused("/dev/full"), "not a regular file"));
  CHECK(contains(refused(""), "cannot write"));
}

TEST_CASE("what another process left behind is no hindrance, and stays") {
  testing::TempFolder folder;
  // The names that this process would take next, as far as this test goes on.
  for (int i = 0; i < 1000; ++i)
    folder.write("a.txt.tmp-" + std::to_string(::getpid()) + "-" + std::to_string(i), {});
  AtomicFile file(folder.path() + "/a.txt", "here");
  write(file, "new");
  file.commit();
  CHECK(text_of(folder.path() + "/a.txt") == "new");
  CHECK(files_in(folder) == 1001);
}

TEST_CASE("a temporary file tells the name that it was to take") {
  testing::TempFolder folder;
  {
    AtomicFile file(folder.path() + "/a.tmp-b-7.txt", "here");
    std::string temporary = fs::directory_iterator(folder.path())->path().filename().string();
    CHECK(temporary != "a.tmp-b-7.txt");
    CHECK(io::name_after_commit(temporary) == "a.tmp-b-7.txt");
  }
  CHECK(io::name_after_commit("a.tmp-12-3") == "a");
  CHECK(io::name_after_commit("a.tmp-1-2.tmp-3-4") == "a.tmp-1-2");
  for (const char* other : {"", "a", "a.tmp", "a.tmp-", "a.tmp-1", "a.tmp-1-", "a.tmp--1",
                            "a.tmp-1-2-3", "a.tmp-1-x", "a.tmp-1-2.txt", "a.tmp-+1-2"})
    CHECK_MESSAGE(io::name_after_commit(other) == "", other);
}

TEST_CASE("a link to a file that is not there makes that file") {
  testing::TempFolder folder;
  folder.make_folder("far");
  fs::create_symlink("far/second", folder.path() + "/first");
  fs::create_symlink("third", folder.path() + "/far/second");
  AtomicFile file(folder.path() + "/first", "here");
  write(file, "new");
  file.commit();
  CHECK(text_of(folder.path() + "/far/third") == "new");
  CHECK(fs::is_symlink(folder.path() + "/first"));
  CHECK(fs::is_symlink(folder.path() + "/far/second"));
}

TEST_CASE("links in a circle are refused, and stay") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  fs::create_symlink("b", path);
  fs::create_symlink("a", folder.path() + "/b");
  std::string text = error_text<FileError>([&] { io::check_writable(path, "here"); });
  CHECK(contains(text, "here: cannot write '" + path + "'"));
  CHECK(contains(text, "symbolic links"));
  CHECK(fs::is_symlink(path));
  CHECK(files_in(folder) == 2);
}

TEST_CASE("links are followed, and permissions of the old file are kept") {
  testing::TempFolder folder;
  std::string path = folder.write("a.txt", std::vector<uint8_t>{'x'});
  std::string link = folder.path() + "/link";
  fs::create_symlink(path, link);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  AtomicFile file(link, "here");
  write(file, "new");
  file.commit();
  CHECK(text_of(path) == "new");
  CHECK(fs::is_symlink(link));
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}
