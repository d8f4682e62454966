// Proves that arrays come back as they were written, that files of NumPy are understood in all
// their forms, and that others are refused by a FileError that names the file and the reason.
#include "brim/io/npy.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/io/tensor_bytes.h"
#include "brim/memory/account.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/npy_bytes.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using testing::contains;
using testing::error_text;
using testing::npy_bytes;
using testing::npy_dict;

namespace {

Tensor read(const std::vector<uint8_t>& bytes) {
  testing::TempFolder folder;
  return io::read_npy(folder.write("a.npy", bytes));
}

void check_refused(const std::vector<uint8_t>& bytes, const std::string& why) {
  CAPTURE(why);
  testing::TempFolder folder;
  std::string path = folder.write("bad.npy", bytes);
  auto account = memory::capped_host_account("direct", 64);
  memory::AccountScope scope(account);
  std::string text = error_text<FileError>([&] { io::read_npy(path); });
  CAPTURE(text);
  CHECK(contains(text, "npy: '" + path + "'"));
  CHECK(contains(text, why));
}

void check_header(const std::string& header, int data, const std::string& why) {
  CAPTURE(header);
  check_refused(npy_bytes(header, data), why);
}

}  // namespace

TEST_CASE("arrays of every dtype and shape come back bit by bit") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.npy";
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::int8, Dtype::uint8,
                      Dtype::int32, Dtype::int64, Dtype::boolean})
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 5}, Shape{2, 3, 1, 4}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      Tensor x = convert_to(uniform(shape, -100, 100, RandomKey{1}), {.dtype = dtype});
      io::write_npy(path, x);
      Tensor y = io::read_npy(path);
      CHECK(y.dtype() == dtype);
      CHECK(y.shape() == shape);
      CHECK(std::ranges::equal(io::bytes_of(x), io::bytes_of(y)));
    }
}

TEST_CASE("the bytes are those that NumPy writes") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.npy";
  io::write_npy(path, from_vector<int32_t>({1, 2}, {2, 1}));
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1), }";
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header;
  expected += std::string(127 - expected.size(), ' ') + '\n';  // the data start at 128
  expected += std::string("\x01\x00\x00\x00\x02\x00\x00\x00", 8);
  CHECK(text == expected);
}

TEST_CASE("the three versions, any order of entries and both quotes are read") {
  for (int version : {1, 2, 3})
    CHECK(read(npy_bytes(npy_dict("'|u1'", "(2,)"), 2, version)).numel() == 2);
  CHECK(read(npy_bytes(R"({"shape": (), "fortran_order": False, "descr": "|u1"})", 1)).dim() == 0);
  CHECK(read(npy_bytes(npy_dict("'|u1'", "(1,1,1,1,1,1,1,1)"), 1)).dim() == 8);
  CHECK(read(npy_bytes(npy_dict("'|b1'", "(2,)"), 2)).to_vector<float>() ==
        std::vector<float>{0, 1});
}

TEST_CASE("Fortran order becomes strides, without a second copy") {
  testing::TempFolder folder;
  std::string path = folder.write("a.npy", npy_bytes(npy_dict("'|u1'", "(2, 3)", "True"), 6));
  auto account = memory::capped_host_account("direct", 64);
  memory::AccountScope scope(account);
  Tensor x = io::read_npy(path);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.strides() == Strides{1, 2});
  CHECK(account->stats().peak_live == 64);
}

TEST_CASE("Fortran order reads as the same array") {
  Tensor x = read(npy_bytes(npy_dict("'|u1'", "(2, 3)", "True"), 6));
  CHECK(x.to_vector<float>() == std::vector<float>{0, 2, 4, 1, 3, 5});
}

TEST_CASE("element types that are not here are refused by name") {
  check_header(npy_dict("'|O'", "(1,)"), 8, "Python objects");
  check_header(npy_dict("'O'", "(1,)"), 8, "Python objects");
  check_header(npy_dict("'>f4'", "(1,)"), 4, "big-endian elements '>f4'");
  check_header(npy_dict("[('a', '<f4')]", "(1,)"), 4, "structures");
  for (const char* descr : {"<c8", "<U4", "|S4", "<M8[ns]", "<u2", "<f16", ""})
    check_header(npy_dict("'" + std::string(descr) + "'", "(1,)"), 4,
                 "elements '" + std::string(descr) + "', which are not known");
  check_header(npy_dict("'\x1b[2J'", "(1,)"), 4, "elements '?'");
}

TEST_CASE("what is no npy file is refused") {
  check_refused({}, "is not an npy file");
  check_refused(std::vector<uint8_t>(100, 'x'), "is not an npy file");
  check_refused(npy_bytes(npy_dict("'|u1'", "(1,)"), 1, 4), "version 4.0");
  check_refused(npy_bytes(npy_dict("'|u1'", "(1,)"), 1, 0), "version 0.0");
}

TEST_CASE("lengths are held against the file") {
  std::vector<uint8_t> cut = npy_bytes(npy_dict("'|u1'", "(2,)"), 2);
  cut.pop_back();
  check_refused(cut, "uint8 of [2] does not take the 1 bytes that follow");
  check_header(npy_dict("'|u1'", "(2,)"), 3, "does not take the 3 bytes");
  cut.resize(40);
  check_refused(cut, "states a header of");
  check_refused(npy_bytes(std::string(70'000, ' '), 0, 2), "or the limit of 65536");
  check_header(npy_dict("'<f8'", "(4294967296, 4294967296)"), 0, "does not take the 0 bytes");
  check_header(npy_dict("'<f8'", "(0, 4294967296, 4294967296)"), 0, "does not take the 0 bytes");
}

TEST_CASE("headers of another form are refused") {
  for (const char* header :
       {"", "{", "{}", "()", "{'descr': '|u1'}", "{'descr' '|u1'}", "{'descr': '|u1", "{descr: 1}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '|u1', 'fortran_order': false, 'shape': (1,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775808,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'more': (1,)}"}) {
    std::string text(header);
    text.resize(std::max<size_t>(text.size(), 2), ' ');  // a file is at least twelve bytes long
    check_header(text, 1, "the header has ");
  }
}

TEST_CASE("a bool that is neither 0 nor 1 is refused") {
  check_header(npy_dict("'|b1'", "(3,)"), 3, "the array has a byte that is neither 0 nor 1");
}

TEST_CASE("what NumPy has not is not written") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.npy";
  Tensor half = empty({1}, {.dtype = Dtype::bfloat16});
  CHECK(error_text<DtypeError>([&] { io::write_npy(path, half); }) ==
        "npy: NumPy has no bfloat16; convert to float32 first");
  Tensor meta = empty({1}, {.device = Device::meta()});
  CHECK_THROWS_AS(io::write_npy(path, meta), DeviceError);
  CHECK_THROWS_AS(io::write_npy(folder.path() + "/no/a.npy", zeros({1})), FileError);
  CHECK(std::filesystem::is_empty(folder.path()));
}
