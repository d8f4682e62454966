// Every public op has a spec, and a line in autocast's table. A spec says `.op = "name"` in a file
// of tests/ops/ that calls `check_op`.

#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "brim/ops/autocast.h"
#include "brim/tests/support/public_ops.h"

namespace {

namespace fs = std::filesystem;
namespace testing = brim::testing;

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

std::set<std::string> ops_with_spec(const fs::path& tests) {
  static const std::regex comment(R"(//[^\n]*)"), spec(R"re(\.op\s*=\s*"(\w+)")re");
  std::set<std::string> ops;
  for (const auto& entry : fs::directory_iterator(tests)) {
    if (!entry.path().filename().string().ends_with("_test.cc")) continue;
    std::string code = std::regex_replace(testing::text_of(entry.path()), comment, "");
    // A spec that nothing uses is a warning, and an error where this is tested.
    if (code.find("check_op(") != std::string::npos) ops.merge(matches(code, spec));
  }
  return ops;
}

}  // namespace

TEST_CASE("coverage: every public op has a spec") {
  const fs::path tests = testing::source_folder("tests/ops");
  REQUIRE_MESSAGE(!tests.empty(), "tests/ops/*_test.cc are not among the test's data");
  const auto ops = testing::public_ops();
  const auto specs = ops_with_spec(tests);
  for (const auto& [op, header] : ops)
    CHECK_MESSAGE(specs.count(op) == 1, op, " (ops/", header,
                  ") has no spec: no test in tests/ops/ says .op = \"", op, "\"");
}

TEST_CASE("coverage: every public op has a line in autocast's table") {
  // A composition of others that are in it.
  const std::set<std::string> composed{"scaled_dot_product_attention"};
  for (const auto& [op, header] : testing::public_ops())
    CHECK_MESSAGE((brim::autocast_rule(op).has_value() || composed.count(op) == 1), op, " (ops/",
                  header, ") has no line in ops/autocast.cc");
}
