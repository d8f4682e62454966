// Proves that what is written comes back bit by bit, in the bytes that the format prescribes, and
// that tensors are read on demand into their own bytes.
#include "brim/io/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "brim/io/tensor_bytes.h"
#include "brim/memory/account.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/safetensors_bytes.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using io::NamedBytes;
using io::SafetensorsFile;
using testing::contains;
using testing::error_text;

namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::ranges::equal(io::bytes_of(contiguous(a)), io::bytes_of(contiguous(b)));
}

const std::vector<Dtype> kDtypesOfFiles{Dtype::float64,  Dtype::float32, Dtype::float16,
                                        Dtype::bfloat16, Dtype::int64,   Dtype::int32,
                                        Dtype::int8,     Dtype::uint8,   Dtype::boolean};

}  // namespace

TEST_CASE("tensors of every dtype and shape come back bit by bit, with their metadata") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";
  std::vector<NamedBytes> tensors;
  for (Dtype dtype : kDtypesOfFiles)
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 5}, Shape{2, 3, 1, 4}}) {
      Tensor random = uniform(shape, -100, 100, RandomKey{tensors.size()});
      tensors.push_back(
          {std::string(to_string(dtype)) + to_string(shape), convert_to(random, {.dtype = dtype})});
    }
  io::Metadata metadata{{"model", "none \"such\""}, {"empty", ""}, {"\xC3\xA9t\xC3\xA9", "\n"}};
  io::write_safetensors(path, tensors, metadata);
  SafetensorsFile file(path);
  CHECK(file.metadata() == metadata);
  REQUIRE(file.tensors().size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    CHECK(same_bytes(file.read(name), tensor));
  }
}

TEST_CASE("metadata that is not UTF-8 comes back escaped") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";
  io::write_safetensors(path, {}, {{"data", "photos/caf\xE9"}});
  CHECK(SafetensorsFile(path).metadata() == io::Metadata{{"data", "photos/caf\\xE9"}});
}

TEST_CASE("the bytes are those that the format prescribes") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";
  Tensor half = convert_to(from_vector<float>({1, -2}, {2}), {.dtype = Dtype::float16});
  std::vector<NamedBytes> tensors{{"half", half}, {"whole", from_vector<int32_t>({7}, {1, 1})}};
  io::write_safetensors(path, tensors, {{"k", "v"}});
  // Larger elements first; the header is filled up with spaces.
  std::string header =
      R"({"__metadata__":{"k":"v"},"whole":{"dtype":"I32","shape":[1,1],"data_offsets":[0,4]},)"
      R"("half":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::vector<uint8_t> expected = testing::safetensors_bytes(header, 0);
  for (uint8_t byte : {7, 0, 0, 0, 0x00, 0x3C, 0x00, 0xC0}) expected.push_back(byte);
  std::string text = file_text(path);
  CHECK(std::ranges::equal(text, expected,
                           [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }));
}

TEST_CASE(
    "the order of the tensors does not change the file, and views are written by their shape") {
  testing::TempFolder folder;
  Tensor x = convert_to(arange(6), {.dtype = Dtype::float32}).view_as({2, 3});
  Tensor transposed(x.storage(), {.shape = {3, 2}, .strides = {1, 3}});
  std::vector<NamedBytes> tensors{{"b", x}, {"a", transposed}};
  io::write_safetensors(folder.path() + "/1", tensors);
  std::ranges::reverse(tensors);
  io::write_safetensors(folder.path() + "/2", tensors);
  CHECK(file_text(folder.path() + "/1") == file_text(folder.path() + "/2"));
  SafetensorsFile file(folder.path() + "/1");
  CHECK(file.tensors()[0].name == "a");
  CHECK(file.read("a").to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("reading into a tensor takes no other bytes, unless it converts or has gaps") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";
  Tensor x = uniform({64, 3}, -1, 1, RandomKey{1});
  io::write_safetensors(path, std::vector<NamedBytes>{{"x", x}});
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  SafetensorsFile file(path);
  CHECK(account->stats().requests == 0);
  Tensor direct = empty({64, 3});
  file.read_into("x", direct);
  CHECK(account->stats().requests == 1);
  CHECK(same_bytes(direct, x));
  CHECK(direct.storage()->version() > 0);

  Tensor wide = empty({64, 3}, {.dtype = Dtype::float64}), store = zeros({3, 64});
  file.read_into("x", wide);
  CHECK(wide.to_vector<float>() == x.to_vector<float>());
  Tensor gaps(store.storage(), {.shape = {64, 3}, .strides = {1, 64}});
  file.read_into("x", gaps);
  CHECK(gaps.to_vector<float>() == x.to_vector<float>());
  CHECK_THROWS_AS(file.read_into("x", empty({3, 64})), ShapeError);
}

TEST_CASE("a name that is not there is answered with the nearest") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";
  io::write_safetensors(path, std::vector<NamedBytes>{{"fc.weight", zeros({2})}});
  SafetensorsFile file(path);
  CHECK(file.find("fc.wieght") == nullptr);
  CHECK(error_text<ValueError>([&] { file.read("fc.wieght"); }) ==
        "safetensors: '" + path + "' has no tensor 'fc.wieght'; did you mean 'fc.weight'?");
}

TEST_CASE("a file that is cut short after it was opened is an error") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";
  io::write_safetensors(path, std::vector<NamedBytes>{{"x", zeros({100})}});
  SafetensorsFile file(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  CHECK(contains(error_text<FileError>([&] { file.read("x"); }), "where 4 more were expected"));
}

TEST_CASE("what cannot be written is refused, and nothing is") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";
  Tensor x = zeros({1});
  auto text = [&](std::vector<NamedBytes> tensors, const io::Metadata& metadata = {}) {
    return error_text<ValueError>([&] { io::write_safetensors(path, tensors, metadata); });
  };
  CHECK(contains(text({{"x", x}, {"x", x}}), "two tensors are called 'x'"));
  CHECK(contains(text({{"__metadata__", x}}), "'__metadata__' cannot be a tensor's name"));
  CHECK(contains(text({{"\x1b[2J", x}}), "cannot be a tensor's name"));
  CHECK(contains(text({{"\xFF", x}}), "not UTF-8"));
  CHECK(contains(text({{"x", x}}, {{"\xFF", "v"}}), "not UTF-8"));
  CHECK(contains(text({{"x", x}}, {{"\n", "v"}}), "cannot be a name in metadata"));
  std::vector<NamedBytes> many;
  for (int i = 0; i <= 100'000; ++i) many.push_back({std::to_string(i), x});
  CHECK(contains(text(many), "100001 tensors, more than the limit of 100000"));
  io::Metadata entries;
  for (int i = 0; i <= 10'000; ++i) entries.emplace(std::to_string(i), "");
  CHECK(contains(text({}, entries), "10001 entries of metadata, more than the limit of 10000"));
  CHECK(contains(text({}, {{"k", std::string(100'000'000, 'v')}}),
                 "more than the limit of 100000000"));
  Tensor meta = empty({1}, {.device = Device::meta()});
  CHECK_THROWS_AS(io::write_safetensors(path, std::vector<NamedBytes>{{"x", meta}}), DeviceError);
  CHECK_THROWS_AS(io::write_safetensors(folder.path() + "/no/a", {}), FileError);
  CHECK(std::filesystem::is_empty(folder.path()));
}
