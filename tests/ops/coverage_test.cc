// Every public op has a spec, and a line in autocast's table. A public op is a function declared in
// ops/*.h that returns tensors and ends with the caller's line, `Where where`; its spec says `.op =
// "name"` in a file of tests/ops/ that calls `check_op`.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "brim/ops/autocast.h"

namespace {

namespace fs = std::filesystem;

// The sources as the build hands them to the test: below the current folder or one above it.
fs::path folder(const fs::path& name) {
  for (const char* above : {".", "..", "../..", "../../.."})
    if (fs::is_directory(fs::path(above) / name)) return fs::path(above) / name;
  return {};
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

// Public ops by name, with their headers.
std::map<std::string, std::string> declared_ops(const fs::path& headers) {
  static const std::regex declaration(
      R"re((?:^|\n)\s*(?:\[\[nodiscard\]\]\s*)?Tensors?\s+(\w+)\s*\([^;]*?Where\s+where)re");
  std::map<std::string, std::string> ops;
  for (const auto& entry : fs::directory_iterator(headers))
    if (entry.path().extension() == ".h")
      for (const std::string& op : matches(text_of(entry.path()), declaration))
        ops[op] = entry.path().filename().string();
  return ops;
}

std::set<std::string> ops_with_spec(const fs::path& tests) {
  static const std::regex comment(R"(//[^\n]*)"), spec(R"re(\.op\s*=\s*"(\w+)")re");
  std::set<std::string> ops;
  for (const auto& entry : fs::directory_iterator(tests)) {
    if (!entry.path().filename().string().ends_with("_test.cc")) continue;
    std::string code = std::regex_replace(text_of(entry.path()), comment, "");
    // A spec that nothing uses is a warning, and an error where this is tested.
    if (code.find("check_op(") != std::string::npos) ops.merge(matches(code, spec));
  }
  return ops;
}

}  // namespace

TEST_CASE("coverage: every public op has a spec") {
  fs::path headers = folder("ops"), tests = folder("tests/ops");
  REQUIRE_MESSAGE(!headers.empty(), "ops/*.h are not among the test's data");
  REQUIRE_MESSAGE(!tests.empty(), "tests/ops/*_test.cc are not among the test's data");
  auto ops = declared_ops(headers);
  auto specs = ops_with_spec(tests);
  // Were the patterns to find nothing, the test would pass for ever.
  REQUIRE(ops.count("relu") == 1);
  REQUIRE(ops.size() >= 20);
  for (const auto& [op, header] : ops)
    CHECK_MESSAGE(specs.count(op) == 1, op, " (ops/", header,
                  ") has no spec: no test in tests/ops/ says .op = \"", op, "\"");
}

TEST_CASE("coverage: every public op has a line in autocast's table") {
  // A composition of others that are in it.
  const std::set<std::string> composed{"scaled_dot_product_attention"};
  for (const auto& [op, header] : declared_ops(folder("ops")))
    CHECK_MESSAGE((brim::autocast_rule(op).has_value() || composed.count(op) == 1), op, " (ops/",
                  header, ") has no line in ops/autocast.cc");
}
