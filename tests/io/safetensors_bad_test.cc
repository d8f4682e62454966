// Proves that a safetensors file which breaks the format is refused by a FileError that names the
// file and what is wrong, whatever it breaks, and that it takes no memory to find out.
#include <doctest/doctest.h>

#include "brim/io/safetensors.h"
#include "brim/memory/account.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/safetensors_bytes.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using testing::contains;
using testing::error_text;
using testing::safetensors_bytes;
using testing::two_tensors;

namespace {

/// Checks that a file of these bytes is refused for the reason `why`, at opening or reading.
void check_refused(const std::vector<uint8_t>& bytes, const std::string& why) {
  CAPTURE(why);
  testing::TempFolder folder;
  std::string path = folder.write("bad.safetensors", bytes);
  auto account = memory::capped_host_account("direct", 1024);
  memory::AccountScope scope(account);
  std::string text = error_text<FileError>([&] {
    io::SafetensorsFile file(path);
    for (const io::TensorInfo& tensor : file.tensors()) file.read(tensor.name);
  });
  CAPTURE(text);
  CHECK(contains(text, "safetensors: '" + path + "'"));
  CHECK(contains(text, why));
  CHECK(account->stats().live == 0);
}

/// A file of this header and as many bytes of data.
void check_header(std::string_view header, int data, const std::string& why) {
  CAPTURE(header);
  check_refused(safetensors_bytes(header, data), why);
}

/// A header with one tensor.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

}  // namespace

TEST_CASE("the header's length is held against the file") {
  check_refused({}, "has 0 bytes, too few");
  check_refused({1, 0, 0, 0, 0, 0, 0}, "has 7 bytes, too few");
  check_refused(std::vector<uint8_t>(8, 0xFF), "states a header of 18446744073709551615 bytes");
  check_refused({3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, "states a header of 3 bytes, but has 2");
  check_refused(std::vector<uint8_t>(8, 0), "does not start with '{'");
}

TEST_CASE("a header beyond the limit is refused before it is read") {
  testing::TempFolder folder;
  std::string path = folder.write("bad.safetensors", safetensors_bytes("{}", 0));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t length = 100'000'001;
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.close();
  std::filesystem::resize_file(path, 200'000'000);  // of which the disk holds nothing
  std::string text = error_text<FileError>([&] { io::SafetensorsFile{path}; });
  CHECK(contains(text, "header of 100000001 bytes, more than the limit of 100000000"));
}

TEST_CASE("what is not JSON is refused at its byte") {
  check_header("{", 0, "not JSON");
  check_header("{}x", 0, "not JSON, at its byte 3");
  check_header(" {}", 0, "does not start with '{'");
  check_header("[]", 0, "does not start with '{'");
  check_header("{\"\xFF\":1}", 0, "not JSON");
  check_header(R"({"x":1e999})", 0, "not JSON");
  check_header("{" + std::string(100'000, '{'), 0, "not JSON");
  check_header(R"({"x":)" + std::string(100'000, '['), 0, "a list where none belongs");
}

TEST_CASE("JSON of another form is refused") {
  check_header(R"({"x":null})", 0, "null");
  check_header(R"({"x":true})", 0, "a boolean");
  check_header(R"({"x":1})", 0, "a number where none belongs");
  check_header(R"({"x":"y"})", 0, "a string where none belongs");
  check_header(R"({"x":{}})", 0, "tensor 'x' has no dtype, shape or data_offsets");
  check_header(R"({"x":{"dtype":{}}})", 0, "an object where none belongs");
  check_header(R"({"x":{"more":"y"}})", 0, "a string where none belongs");
  check_header(R"({"x":{"dtype":"U8","dtype":"U8"}})", 0, "dtype twice");
  check_header(R"({"x":{"shape":[],"shape":[]}})", 0, "twice");
  check_header(R"({"__metadata__":{"a":1}})", 0, "a number where none belongs");
  check_header(R"({"__metadata__":{"a":{}}})", 0, "an object where none belongs");
  check_header(R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ twice");
  check_header(R"({"__metadata__":{"a":"1","a":"2"}})", 0, "the metadata 'a' twice");
  check_header(one("U8", "[[1]]", "[0,1]"), 1, "a list where none belongs");
}

TEST_CASE("names that are there twice, or could not be shown, are refused") {
  std::string x = R"("x":{"dtype":"U8","shape":[1],"data_offsets":)";
  check_header("{" + x + "[0,1]}," + x + "[1,2]}}", 2, "tensor 'x' is there twice");
  check_header(R"({"\u001b[2J":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
               "too long or has control characters");
  check_header("{\"" + std::string(1001, 'x') + "\":{}}", 0, "too long");
}

TEST_CASE("dtypes that are not known are named") {
  check_header(one("F8_E4M3", "[1]", "[0,1]"), 1, "tensor 'x' has dtype F8_E4M3");
  check_header(one("f32", "[1]", "[0,4]"), 4, "dtype f32");
  check_header(one("\\u001b", "[1]", "[0,1]"), 1, "dtype ?");
}

TEST_CASE("shapes and offsets that do not go together are refused") {
  check_header(one("F32", "[3]", "[0,8]"), 8,
               "tensor 'x' is F32 of [3], which does not take its 8");
  check_header(one("F32", "[2]", "[0,8]"), 4, "lies at bytes 0 to 8 of 4");
  check_header(one("U8", "[1]", "[1,0]"), 1, "lies at bytes 1 to 0");
  check_header(one("U8", "[1]", "[9223372036854775807,9223372036854775807]"), 1, "lies at bytes");
  check_header(one("U8", "[9223372036854775808]", "[0,1]"), 1, "beyond 2^63 - 1");
  check_header(one("U8", "[99999999999999999999]", "[0,1]"), 1, "a number that is not whole");
  check_header(one("U8", "[-1]", "[0,1]"), 1, "the number -1");
  check_header(one("U8", "[1.0]", "[0,1]"), 1, "a number that is not whole");
  check_header(one("U8", "[1]", "[0]"), 1, "data_offsets that are not two");
  check_header(one("U8", "[1]", "[0,1,1]"), 1, "data_offsets that are not two");
  check_header(one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "more than 8 axes");
}

TEST_CASE("products of sizes do not overflow, not even beside a 0") {
  check_header(one("U8", "[4294967296,4294967296]", "[0,0]"), 0, "does not take its 0 bytes");
  check_header(one("F64", "[2305843009213693952]", "[0,0]"), 0, "does not take its 0 bytes");
  check_header(one("U8", "[0,4294967296,4294967296]", "[0,0]"), 0, "does not take its 0 bytes");
}

TEST_CASE("every byte belongs to one tensor") {
  check_header(two_tensors("[0,2]", "[1,3]"), 3, "tensors 'a' and 'b' overlap");
  check_header(two_tensors("[0,2]", "[0,2]"), 2, "tensors 'a' and 'b' overlap");
  check_header(two_tensors("[3,5]", "[0,2]"), 5, "bytes 2 to 3 belong to no tensor");
  check_header(two_tensors("[1,3]", "[3,5]"), 5, "bytes 0 to 1 belong to no tensor");
  check_header(two_tensors("[0,2]", "[2,4]"), 5, "bytes 4 to 5 belong to no tensor");
  check_header("{}", 1, "bytes 0 to 1 belong to no tensor");
}

TEST_CASE("a bool that is neither 0 nor 1 is refused when it is read") {
  check_header(one("BOOL", "[3]", "[0,3]"), 3, "tensor 'x' has a byte that is neither 0 nor 1");
}

TEST_CASE("many tiny entries are refused before they take more than a constant") {
  std::string header = "{";
  for (int i = 0; i <= 100'000; ++i)
    header += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
  header.back() = '}';
  check_header(header, 0, "more than 100000 tensors");
  header = R"({"__metadata__":{)";
  for (int i = 0; i <= 10'000; ++i) header += "\"" + std::to_string(i) + "\":\"\",";
  header.back() = '}';
  check_header(header + "}", 0, "more than 10000 entries of metadata");
}

TEST_CASE("files at the edge of the format are read") {
  testing::TempFolder folder;
  auto opened = [&](std::string_view header, int data) {
    return io::SafetensorsFile(folder.write("good.safetensors", safetensors_bytes(header, data)))
        .tensors()
        .size();
  };
  CHECK(opened("{}", 0) == 0);
  CHECK(opened("{}      ", 0) == 0);
  CHECK(opened(R"({"__metadata__":{}})", 0) == 0);
  CHECK(opened(one("U8", "[]", "[0,1]"), 1) == 1);
  CHECK(opened(one("U8", "[0]", "[0,0]"), 0) == 1);
  CHECK(opened(one("U8", "[1,1,1,1,1,1,1,1]", "[0,1]"), 1) == 1);
}
