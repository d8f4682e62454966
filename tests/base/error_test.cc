#include "brim/base/error.h"

#include <doctest/doctest.h>

#include <vector>

#include "brim/base/nearest.h"
#include "brim/base/text_formatter.h"

using namespace brim;

TEST_CASE("an error carries its tag and the offending values") {
  try {
    raise<ShapeError>("conv2d", "expected {} channels, got {}", 64, 3);
  } catch (const Error& error) {
    CHECK(error.tag() == "conv2d");
    CHECK(std::string(error.what()) == "conv2d: expected 64 channels, got 3");
  }
}

TEST_CASE("expect throws the type that was asked for, and only when the condition fails") {
  CHECK_NOTHROW(expect<ValueError>(true, "rate", "got {}", -1));
  CHECK_THROWS_AS(expect<ValueError>(false, "rate", "got {}", -1), ValueError);
  CHECK_THROWS_AS(check(false, "broken"), InternalError);
}

TEST_CASE("an internal check names its source line") {
  std::string text;
  try {
    check(false, "broken");
  } catch (const InternalError& error) {
    text = error.what();
  }
  CHECK(text.find("error_test.cc:") != std::string::npos);
}

namespace {

struct Counted {
  int* written;
};
std::string to_string(const Counted& counted) { return std::to_string(++*counted.written); }

}  // namespace

template <>
struct fmt::formatter<Counted> : TextFormatter<Counted> {};

TEST_CASE("what a check would say is written where it fails alone") {
  int written = 0;
  expect<ValueError>(true, "tag", "got {}", Counted{&written});
  CHECK(written == 0);
  CHECK_THROWS_WITH_AS(expect<ValueError>(false, "tag", "got {}", Counted{&written}), "tag: got 1",
                       ValueError);
}

TEST_CASE("the nearest known name is suggested, a far one is not") {
  const std::vector<std::string> known{"resnet18", "resnet50", "mobilenet_v2"};
  CHECK(nearest_name("resnet5", known) == "resnet50");
  CHECK(nearest_name("mobilnet_v2", known) == "mobilenet_v2");
  CHECK(nearest_name("xyz", known).empty());
  CHECK(to_string(did_you_mean("resnet81", known)) == "; did you mean 'resnet18'?");
}
