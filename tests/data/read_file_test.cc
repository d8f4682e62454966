// Proves that whatever a path names, reading it gives its bytes or a FileError that names it.
#include "brim/data/read_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>

#include "brim/base/error.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using data::read_file;

namespace {

std::string error_of(const std::string& path, int64_t max_bytes = 100) {
  try {
    read_file(path, max_bytes);
    return "";
  } catch (const FileError& error) {
    CHECK(std::string(error.what()).find(path) != std::string::npos);
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a file's bytes come back, and a vector is used again") {
  testing::TempFolder folder;
  std::vector<uint8_t> bytes{1, 2, 3, 0, 255};
  std::string path = folder.write("a.bin", bytes);
  CHECK(read_file(path, 5) == bytes);
  CHECK(read_file(folder.write("empty", {}), 0).empty());

  std::vector<uint8_t> buffer(1000, 9);
  read_file(path, 5, buffer);
  CHECK(buffer == bytes);
  CHECK(buffer.capacity() >= 1000);
}

TEST_CASE("what cannot be read is named") {
  testing::TempFolder folder;
  CHECK(contains(error_of(folder.path() + "/missing"), "No such file"));
  CHECK(contains(error_of(folder.path()), "not a regular file"));
  CHECK(contains(error_of(folder.write("big", std::vector<uint8_t>(101))),
                 "101 B, more than the limit of 100 B"));
  CHECK(contains(error_of("/dev/zero"), "not a regular file"));
}

TEST_CASE("a named pipe that nobody writes to does not block") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(contains(error_of(path), "not a regular file"));
}
