// Every option of every program, as --help lists them: what it takes is said there, and a value
// that it does not take is refused in one short line that names the option.
#include "brim/apps/support/flag_values.h"

#include <cctype>
#include <map>

#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"

using namespace brim::testing;
namespace apps = brim::apps;

namespace {

struct Option {
  std::string name, type, description;
};

/// Those with a value: `  --steps INT=10       updates instead of epochs; from 1 to 1000000000`.
std::vector<Option> options_of(const std::string& program) {
  const Finished help = run_command("apps/" + program + " --help");
  REQUIRE(help.code == 0);
  std::vector<Option> options;
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line) && line != "Examples:";) {
    if (line.starts_with("  --")) {
      const size_t space = line.find(' ', 2);
      const std::string head = line.substr(2, space - 2);
      const bool has_value = space != line.npos && space + 1 < line.size() &&
                             (line[space + 1] == '[' || std::isupper(line[space + 1]) != 0);
      options.push_back({head.substr(0, head.find(','))});
      if (has_value)
        options.back().type =
            line.substr(space + 1, line.find_first_of(" =", space + 1) - space - 1);
    }
    if (!options.empty()) options.back().description += line;
  }
  std::erase_if(options, [](const Option& option) { return option.type.empty(); });
  return options;
}

/// By what --help calls the value.
const std::map<std::string, std::vector<std::string>>& bad_values() {
  static const std::vector<std::string> whole{"",    "x",   "0,05", "-1",  "1.5",
                                              "1e3", "010", "+1",   " 1 ", "99999999999999999999"};
  static const std::vector<std::string> number{"",    "x",   "0,05",  "-1",
                                               "nan", "inf", "1e999", "0.5x"};
  static const std::vector<std::string> name{"", "x", "-1"};
  static const std::map<std::string, std::vector<std::string>> all{
      {"INT", whole},
      {"UINT", whole},
      {"FLOAT", number},
      {"ALPHA", number},
      {"SIZE", {"", "x", "-1", "1XB", "1,5GB", "nan", "9999999TiB"}},
      {"N", {"", "x", "0", "-1", "1.5", "99999999999999999999"}},
      {"PERCENT", {"", "x", "-1", "100", "nan", "5,5"}},
      {"B,C,S,H", {"", "x", "1,2", "nan,0,0,0"}},
      {"NAME", name},
      {"TYPE", name},
      {"HOW", name},
      {"SCALE", {"", "x", "-1", "0", "nan"}},
      {"SOURCE", name},
      {"KIND", name},
      {"GOAL", {"", "x", "flops=2", "flops=nan", "flops=0,5"}},
      {"MODULE", {""}},
      {"DATA", {""}},
      {"DIR", {""}},
      {"FILE", {""}},
      {"FILE.html", {""}},
      {"[FILE.html]", {"x"}}};
  return all;
}

void check_names_option(const std::string& program, const Option& option,
                        const std::string& value) {
  CAPTURE(option.name);
  CAPTURE(value);
  const Finished run = run_command("apps/" + program + " " + option.name + " '" + value + "'");
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(contains(run.err, option.name));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(run.err.size() < 250);
  CHECK(run.out.empty());
}

std::string refused(const apps::FlagCheck& takes, const std::string& value) {
  return takes(value);
}

}  // namespace

TEST_CASE("every option of every program refuses what it does not take, by its name") {
  for (const char* program : {"train", "infer", "plan", "prune", "pack"}) {
    CAPTURE(program);
    const std::vector<Option> options = options_of(program);
    REQUIRE(options.size() >= 4);
    for (const Option& option : options) {
      CAPTURE(option.name);
      const auto bad = bad_values().find(option.type);
      REQUIRE_MESSAGE(bad != bad_values().end(), option.type);
      for (const std::string& value : bad->second) check_names_option(program, option, value);
    }
  }
}

TEST_CASE("--help says the range of every number") {
  for (const char* program : {"train", "infer", "plan", "prune", "pack"}) {
    CAPTURE(program);
    for (const Option& option : options_of(program)) {
      if (option.type != "INT" && option.type != "UINT" && option.type != "FLOAT") continue;
      CAPTURE(option.name);
      CAPTURE(option.description);
      CHECK((contains(option.description, "; from ") || contains(option.description, "; above ")));
    }
  }
}

TEST_CASE("whole numbers are taken up to the ends of their range, and others named with it") {
  const apps::FlagCheck takes = apps::whole_number(1, 100);
  for (const char* value : {"1", "100"}) CHECK(refused(takes, value) == "");
  CHECK(refused(takes, "0") == "expected a whole number from 1 to 100, got '0'");
  CHECK(refused(takes, "101") == "expected a whole number from 1 to 100, got '101'");
  CHECK(refused(takes, "0,05") == "expected a whole number from 1 to 100, got '0,05'");
  CHECK(refused(takes, std::string(50, '9')) ==
        "expected a whole number from 1 to 100, got '" + std::string(40, '9') + "..'");
}

TEST_CASE("a seed is any number of 64 bits, and no other is brought to one") {
  const apps::FlagCheck takes = apps::seed_number();
  for (const char* value : {"0", "18446744073709551615"}) CHECK(refused(takes, value) == "");
  for (const char* value : {"-1", "18446744073709551616", "99999999999999999999"})
    CHECK(refused(takes, value) ==
          "expected a whole number from 0 to 2^64 - 1, got '" + std::string(value) + "'");
}

TEST_CASE("ends of a range of numbers are in it or not, as is said") {
  const apps::FlagCheck share = apps::number({.most = 1, .below_most = true});
  for (const char* value : {"0", "0.5", "1e-300", "0.999"}) CHECK(refused(share, value) == "");
  CHECK(refused(share, "1") == "expected a number from 0 to below 1, got '1'");
  const apps::FlagCheck rate = apps::positive_number();
  CHECK(refused(rate, "0.05") == "");
  CHECK(refused(rate, "0") == "expected a number above 0 and up to 1e+30, got '0'");
  for (const char* value : {"nan", "-nan", "inf", "1e31", "1e-999"})
    CHECK(contains(refused(rate, value), "expected a number above 0"));
}
