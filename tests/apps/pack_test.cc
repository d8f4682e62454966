// The pack program from outside: packings that stand up to the check, exit codes, JSON, and one
// line for every bad input.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "brim/memory/plan/check_packing.h"
#include "brim/memory/plan/packing_csv.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/packing_families.h"
#include "brim/tests/support/subprocess.h"

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

// Two of 4 bytes live at a time, three from 0 to 3.
constexpr const char* kFive =
    "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

struct Place {
  TempFolder folder;
  std::string out = folder.path() + "/out.csv";

  std::string write(const std::string& text, const std::string& name = "in.csv") const {
    return folder.write(name, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  std::string write(const PackingProblem& problem) const {
    memory::PackingRows rows{.lifetimes = problem.lifetimes};
    for (size_t i = 0; i < rows.lifetimes.size(); ++i) rows.ids.push_back("b" + std::to_string(i));
    return write(memory::format_packing_csv(rows));
  }
};

Finished run_pack(const std::string& arguments) {
  return run_command("apps/pack " + arguments);
}

/// The column `offset` of a file that the program wrote.
std::vector<int64_t> offsets_of(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  CHECK(line == "id,lower,upper,size,offset");
  std::vector<int64_t> offsets;
  while (std::getline(lines, line)) offsets.push_back(std::stoll(line.substr(line.rfind(',') + 1)));
  return offsets;
}

void check_refused(const std::string& arguments, const std::string& text, int code = 1) {
  CAPTURE(arguments);
  Finished run = run_pack(arguments);
  CAPTURE(run.err);
  CHECK(run.code == code);
  CHECK(contains(run.err, text));
  CHECK(run.err.starts_with("pack: "));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(run.out.empty());
}

}  // namespace

TEST_CASE("help shows the flags with examples") {
  Finished run = run_pack("--help");
  CHECK(run.code == 0);
  for (const char* text : {"--capacity", "--time-limit", "--seed", "--json", "Examples:"})
    CHECK(contains(run.out, text));
}

TEST_CASE("a packing is written beside its rows, and told") {
  Place place;
  Finished run = run_pack(place.write(kFive) + " " + place.out);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(contains(run.out, "5 buffers in 12 bytes (12 B), 0.000% above the lower bound"));
  CHECK(contains(run.out, "no packing is lower"));
  std::string written = text_of(place.out);
  memory::PackingRows in = memory::parse_packing_csv(kFive, "in");
  memory::PackingRows out = memory::parse_packing_csv(written, "out");
  CHECK(out.ids == in.ids);
  CHECK(out.lifetimes == in.lifetimes);
  CHECK_NOTHROW(memory::check_packing(in.lifetimes, offsets_of(written), 12));
}

TEST_CASE("the JSON object is one line, alone on standard output, or in a file") {
  Place place;
  std::string input = place.write(kFive);
  Finished run = run_pack("--json - " + input);
  REQUIRE(run.code == 0);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') == 1);
  json result = json::parse(run.out);
  std::set<std::string> keys;
  for (const auto& [key, value] : result.items()) keys.insert(key);
  CHECK(keys ==
        std::set<std::string>{"buffers", "lower_bound", "height", "gap", "seconds", "proved"});
  CHECK(result["buffers"] == 5);
  CHECK(result["lower_bound"] == 12);
  CHECK(result["height"] == 12);
  CHECK(result["gap"] == 0);
  CHECK(result["seconds"] >= 0);
  CHECK(result["proved"] == true);

  std::string file = place.folder.path() + "/result.json";
  run = run_pack("--json " + file + " --quiet " + input);
  CHECK(run.code == 0);
  CHECK(run.out.empty());
  CHECK(json::parse(text_of(file))["height"] == 12);
}

TEST_CASE("a capacity is answered by the exit code, and proved says whether none can") {
  Place place;
  std::string input = place.write(kFive);
  CHECK(run_pack("--capacity 12 " + input).code == 0);
  CHECK(run_pack("--capacity 1KiB " + input).code == 0);
  check_refused(
      "--capacity 11 " + input,
      "'" + input + "' does not fit 11: no packing does, the lowest packing found has 12 bytes", 2);
  check_refused("--capacity 3 " + input, "does not fit 3: buffer 'b1' alone has 4 bytes", 2);

  for (const char* capacity : {"3", "11"}) {
    Finished run =
        run_pack(std::string("--json - --capacity ") + capacity + " " + input + " " + place.out);
    CHECK(run.code == 2);
    json result = json::parse(run.out);
    CHECK(result["proved"] == true);
    CHECK(result["lower_bound"] == 12);
    CHECK(result["height"] == 12);
    CHECK_FALSE(std::filesystem::exists(place.out));
  }
}

TEST_CASE("where the work is at its end nothing is claimed") {
  Place place;
  PackingProblem problem = cut_rectangle(3000, 1);
  std::string input = place.write(problem);
  Finished run = run_pack("--json - --time-limit 0.05 --capacity " +
                          std::to_string(problem.optimum) + " " + input);
  CHECK(run.code == 2);
  CHECK(contains(run.err, "perhaps some packing does, the lowest packing found has"));
  CHECK(json::parse(run.out)["proved"] == false);
}

TEST_CASE("the same seed gives the same offsets") {
  Place place;
  std::string input = place.write(cut_rectangle(60, 2));
  auto packed = [&](int seed) {
    Finished run = run_pack("--seed " + std::to_string(seed) + " " + input + " " + place.out);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return text_of(place.out);
  };
  CHECK(packed(1) == packed(1));
  CHECK(packed(2) != packed(1));
}

TEST_CASE("bad files are refused with the line") {
  Place place;
  const std::string head = "id,lower,upper,size\na,0,1,4\n";
  auto refused = [&](const std::string& text, const std::string& message) {
    std::string input = place.write(text);
    check_refused(input + " " + place.out, message);
    CHECK_FALSE(std::filesystem::exists(place.out));
  };
  refused("", "in.csv' line 0: expected a line 'id,lower,upper,size', got an empty file");
  refused("id,lower,size\n", "in.csv' line 1: expected the columns id, lower, upper and size");
  refused("id,lower,upper,size\n", "in.csv' has no rows");
  refused(head + "b,0,1,-4\n", "in.csv' line 3: expected a size from 0, got -4");
  refused(head + "b,0,1,99999999999999999999\n", "in.csv' line 3: size '99999999999999999999' is");
  refused(head + "b,0,1,9223372036854775807\n", "in.csv' line 3: the sizes up to here add up");
  refused(head + "b,1,1,4\n", "in.csv' line 3: expected lower < upper, got 1 and 1");
  refused(head + "b,0,1\n", "in.csv' line 3: expected 4 fields, got 3");
  refused(head + "b,0,x,4\n", "in.csv' line 3: expected a whole number as upper, got 'x'");
  refused(head + "\na,0,1,4\n", "in.csv' line 4: the id 'a' is also on line 2");
  check_refused("/no/such.csv", "/no/such.csv");
  check_refused(place.folder.path(), place.folder.path());
}

TEST_CASE("flags and outputs that cannot be are refused") {
  Place place;
  std::string input = place.write(kFive);
  check_refused("", "input is required");
  check_refused("--capacty 12 " + input, "did you mean '--capacity'?");
  check_refused("--capacity 0 " + input, "--capacity: expected a size from 1 to 2^63 - 1 bytes");
  check_refused("--capacity twelve " + input, "twelve");
  check_refused("--capacity -5 " + input, "-5");
  check_refused("--time-limit -1 " + input, "--time-limit");
  check_refused(input + " /no/out.csv", "cannot write '/no/out.csv'");
  check_refused("--json /no/result.json " + input, "cannot write '/no/result.json'");
  check_refused(input + " " + place.out + " third.csv", "unexpected argument 'third.csv'");
}
