// Pictures are read as Pillow reads them where programs differ: the way up that EXIF says, and
// CMYK with and without Adobe's marker. make_pictures.py describes the files.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "brim/data/decode.h"

using namespace brim;
using nlohmann::json;

namespace {

std::vector<uint8_t> bytes_of(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace

TEST_CASE("pictures have the sides and the pixels that Pillow gives them") {
  std::ifstream file("tests/golden/pictures.json");
  REQUIRE(file.is_open());
  const json golden = json::parse(file);
  REQUIRE(golden["pictures"].size() == 22);
  for (const json& picture : golden["pictures"]) {
    const std::string name = picture["name"];
    CAPTURE(name);
    const data::Image image = data::decode_image(bytes_of(picture["file"]), name);
    CHECK(image.width == picture["width"]);
    CHECK(image.height == picture["height"]);
    CHECK(image.pixels == bytes_of(picture["rgb"]));
  }
}
