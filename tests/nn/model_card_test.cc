// Proves that what a file says of itself comes back, and that entries which make no sense are
// refused by name, when they are written and when they are read.
#include "brim/nn/model_card.h"

#include <doctest/doctest.h>

#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using testing::contains;
using testing::error_text;

namespace {

nn::ModelCard read(const io::Metadata& metadata) {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  io::write_safetensors(path, {}, metadata);
  return nn::card_of(io::SafetensorsFile(path));
}

void check_refused(const std::string& key, const std::string& entry, const std::string& why) {
  CAPTURE(entry);
  std::string text = error_text<FileError>([&] { read({{key, entry}}); });
  CAPTURE(text);
  CHECK(contains(text, key));
  CHECK(contains(text, why));
}

}  // namespace

TEST_CASE("a card comes back from a file") {
  nn::ModelCard card{.model = "resnet18",
                     .classes = {"cat", "\"dog\", big", "\xC3\xA9t\xC3\xA9"},
                     .size = 224,
                     .resize = 256,
                     .exif = false,
                     .mean = {0.485f, 0.456f, 0.406f},
                     .deviation = {0.229f, 0.224f, 1e-3f},
                     .sizes = {{{"conv1.weight", {40, 7, 5, 3}}, {"fc.weight", {10, 480}}},
                               {"layer1.1", "layer2.0"}}};
  io::Metadata metadata = nn::to_metadata(card);
  CHECK(metadata.at("format") == "pt");
  CHECK(metadata.at("brim.mean") == "[0.485,0.456,0.406]");
  nn::ModelCard again = read(metadata);
  CHECK(again.model == card.model);
  CHECK(again.classes == card.classes);
  CHECK(again.size == card.size);
  CHECK(again.resize == card.resize);
  CHECK(again.exif == card.exif);
  CHECK(read({{"brim.exif", "true"}}).exif == true);
  CHECK(again.mean == card.mean);
  CHECK(again.deviation == card.deviation);
  CHECK(again.sizes == card.sizes);
  // As in the file: channels second.
  CHECK(metadata.at("brim.shapes") == R"({"conv1.weight":[40,3,7,5],"fc.weight":[10,480]})");
  CHECK(metadata.at("brim.bypassed") == R"(["layer1.1","layer2.0"])");
}

TEST_CASE("a file without entries has an empty card") {
  nn::ModelCard card = read({{"format", "pt"}, {"other", "[[["}});
  CHECK(card.model.empty());
  CHECK(card.classes.empty());
  CHECK(card.size == 0);
  CHECK_FALSE(card.exif.has_value());
  CHECK(card.mean.empty());
  CHECK(nn::to_metadata({}) == io::Metadata{{"format", "pt"}});
}

TEST_CASE("entries that make no sense are refused") {
  check_refused("brim.model", "\x1b[2J", "control characters");
  check_refused("brim.classes", "cat", "not JSON");
  check_refused("brim.classes", "null", "not JSON");
  check_refused("brim.classes", R"({"0":"cat"})", "expected a list of names");
  check_refused("brim.classes", R"(["cat",1])", "expected a list of names");
  check_refused("brim.classes", R"(["cat",""])", "name 1, \"\", is empty");
  check_refused("brim.classes", R"(["\u001b[2J"])", "control characters");
  check_refused("brim.classes", "[\"" + std::string(1001, 'x') + "\"]", "is too long");
  check_refused("brim.classes", "[\"" + std::string(4 << 20, 'x') + "\"]", "it is too long");
  check_refused("brim.classes", std::string(100'000, '['), "not JSON");
  for (const char* size : {"0", "-1", "2.5", "4097", "99999999999999999999", "\"224\"", "[]"})
    check_refused("brim.size", size, "expected a whole number from 1 to 4096");
  for (const char* exif : {"1", "\"true\"", "[true]"})
    check_refused("brim.exif", exif, "expected true or false");
  check_refused("brim.exif", "yes", "not JSON");
  for (const char* mean : {"[1,2,3]", "[1]", "[1,2,3,4]"})
    check_refused("brim.mean", mean, "brim.mean and brim.deviation are not three numbers");
  check_refused("brim.mean", R"(["1",2,3])", "expected a list of numbers");
  auto both = [](const std::string& mean, const std::string& deviation) {
    return error_text<FileError>([&] {
      read({{"brim.mean", mean}, {"brim.deviation", deviation}});
    });
  };
  CHECK(both("[0,0,0]", "[1,1,1]").empty());
  CHECK(contains(both("[0,0,0]", "[1,1,0]"), "above 0"));
  CHECK(contains(both("[0,0,1e300]", "[1,1,1]"), "not three numbers"));
  for (const char* shapes : {"[1]", R"(["a"])", "3"})
    check_refused("brim.shapes", shapes, "expected shapes by name");
  for (const char* shape :
       {"1", "[-1]", "[1.5]", "[\"1\"]", "[1,1,1,1,1,1,1,1,1]", "[99999999999999]"})
    check_refused("brim.shapes", fmt::format(R"({{"a":{}}})", shape), "expected lists of sizes");
  check_refused("brim.shapes", R"({"a":[3,0]})", "a cannot be [3,0]");
  check_refused("brim.shapes", R"({"\u001b":[3]})", "has control characters");
  check_refused("brim.bypassed", "3", "expected a list of names");
  check_refused("brim.bypassed", R"(["\u001b"])", "has control characters");
  std::string text = error_text<FileError>([&] {
    read({{"brim.size", "224"}, {"brim.resize", "100"}});
  });
  CHECK(contains(text, "brim.resize 100 is below brim.size 224"));
}

TEST_CASE("what would be refused is not written") {
  auto refused = [](const nn::ModelCard& card) {
    return error_text<ValueError>([&] { nn::to_metadata(card); });
  };
  CHECK(refused({.classes = {"\n"}}) ==
        R"(model_card: brim.classes: name 0, "\n", has control characters)");
  CHECK(refused({.model = "\xFF"}) == "model_card: brim.model is not UTF-8");
  CHECK(contains(refused({.size = -1}), "1 to 4096, got -1"));
  CHECK(contains(refused({.size = 3600, .resize = 4114}), "1 to 4096, got 4114"));
  CHECK(contains(refused({.mean = {0, 0, 0}}), "not three numbers"));
  CHECK(contains(refused({.classes = std::vector(5000, std::string(1000, 'x'))}),
                 "take 5015001 bytes, more than the limit of 4194304"));
}

TEST_CASE("names of folders that are not UTF-8 come back escaped") {
  CHECK(read(nn::to_metadata({.classes = {"cat", "caf\xE9"}})).classes ==
        std::vector<std::string>{"cat", "caf\\xE9"});
}

TEST_CASE("as many names as ImageNet-21K has come back") {
  std::vector<std::string> names(21'841, std::string(50, 'x'));
  CHECK(read(nn::to_metadata({.classes = names})).classes == names);
}
