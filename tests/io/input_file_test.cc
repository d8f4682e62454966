// Proves that parts of a file come back, and that a path which cannot be read, or a file that ends
// too early, is a FileError that names it.
#include "brim/io/input_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <array>
#include <vector>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using io::InputFile;
using testing::contains;
using testing::error_text;

namespace {

std::string open_error(const std::string& path) {
  std::string text = error_text<FileError>([&] { InputFile(path, "here"); });
  CHECK(contains(text, "here: "));
  CHECK(contains(text, path));
  return text;
}

}  // namespace

TEST_CASE("any part of a file can be read, in any order") {
  testing::TempFolder folder;
  InputFile file(folder.write("a.bin", std::vector<uint8_t>{10, 11, 12, 13, 14}), "here");
  CHECK(file.size() == 5);
  std::array<std::byte, 2> part{};
  file.read(3, part);
  CHECK(part == std::array{std::byte{13}, std::byte{14}});
  file.read(0, part);
  CHECK(part == std::array{std::byte{10}, std::byte{11}});
  file.read(5, {});
}

TEST_CASE("a part beyond the end is an error, also where the file shrank meanwhile") {
  testing::TempFolder folder;
  std::string path = folder.write("a.bin", std::vector<uint8_t>(5));
  InputFile file(path, "here");
  std::array<std::byte, 4> part{};
  std::string text = error_text<FileError>([&] { file.read(3, part); });
  CHECK(text == "here: '" + path + "' ended at byte 5, where 2 more were expected");
  std::filesystem::resize_file(path, 1);
  CHECK(contains(error_text<FileError>([&] { file.read(0, part); }), "ended at byte 1"));
}

TEST_CASE("what is no regular file is refused, and a pipe does not block") {
  testing::TempFolder folder;
  CHECK(contains(open_error(folder.path() + "/missing"), "No such file"));
  CHECK(contains(open_error(folder.path()), "not a regular file"));
  CHECK(contains(open_error("/dev/zero"), "not a regular file"));
  std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(contains(open_error(pipe), "not a regular file"));
}
