// --watch-numerics from outside: a summary and a table at the end, a page where one is asked for,
// the same training in the same bytes; also of a run that ends in a NaN.
#include <regex>

#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::testing;

namespace {

const std::string kModel = "--batch 8" + kSynthetic;

}  // namespace

TEST_CASE("it says what float16 would lose, and changes neither bits nor bytes") {
  Finished run = train(kModel + " --steps 3 --watch-every 2 --watch-numerics");
  CAPTURE(run.out);
  CHECK(run.code == 0);
  CHECK(run.out.find("updates looked at: 0, 2\n") != std::string::npos);
  CHECK(run.out.find("in float16 ") != std::string::npos);
  CHECK(run.out.find("a loss scale of ") != std::string::npos);
  CHECK(std::regex_search(run.out, std::regex("batch_norm +gradients ")));
  CHECK(run.out.find(" rows that lose no more\n") != std::string::npos);
  const std::string to_events = " --steps 3 --json - --watch-every 1";
  const auto watched = events_of(train(kModel + to_events + " --watch-numerics").out),
             plain = events_of(train(kModel + to_events).out);
  CHECK(losses_of(watched) == losses_of(plain));
  const json numbers = watched[watched.size() - 2];
  CHECK(numbers["event"] == "numerics");
  CHECK(numbers["type"] == "float16");
  CHECK(numbers["updates"] == json::array({0, 1, 2}));
  CHECK(numbers["loss_scale"] > 1);
  CHECK(numbers["gradients"]["subnormal"] > 0.01);
  CHECK(numbers["scaled_gradients"]["lost"] <= numbers["gradients"]["lost"]);
  CHECK(numbers["needs_float32"].empty());
  CHECK(plain[plain.size() - 2]["event"] != "numerics");
  CHECK(watched.back()["peak_bytes"] == plain.back()["peak_bytes"]);
  CHECK(watched.back()["mismatches"] == 0);
}

TEST_CASE("the page is written, for the type that the run is in") {
  TempFolder folder;
  const std::string page = folder.path() + "/numbers.html";
  Finished run = train(kModel + " --steps 2 --precision bf16 --quiet --watch-numerics " + page);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK(run.out.empty());
  std::ifstream file(page);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  CHECK(text.find("<h1>Numbers of a training, and bfloat16</h1>") != std::string::npos);
  CHECK(text.find("layer3.2.conv2") != std::string::npos);
  CHECK(text.find("resnet20, 32x32, batch 8, in bfloat16") != std::string::npos);
}

TEST_CASE("skipped updates are told with what overflowed") {
  Finished run = train(kModel + " --steps 2 --precision f16 --loss-scale 1e12 --watch-numerics");
  CHECK(run.code == 0);
  CHECK(run.out.find("no update was looked at and applied") != std::string::npos);
  CHECK(run.out.find("update 1 was skipped, with the loss times 1000000000000: first seen in the "
                     "backward pass of '") != std::string::npos);
}

TEST_CASE("a run that ends in a NaN tells what led to it") {
  Finished run = train(kModel + " --steps 40 --lr 1e30 --watch-every 1 --watch-numerics");
  CAPTURE(run.out);
  CHECK(run.code == 1);
  CHECK(run.err.find("at update ") != std::string::npos);
  CHECK(run.err.find("first seen in the ") != std::string::npos);
  CHECK(run.out.find("updates looked at: 0") != std::string::npos);
}

TEST_CASE("bad flags are refused before anything runs") {
  check_error(kModel + " --watch-numerics page.txt",
              "--watch-numerics: expected FILE.html, got 'page.txt'");
  check_error(kModel + " --watch-every 0 --watch-numerics", "--watch-every");
  check_error(kModel + " --watch-numerics /no/such/folder/page.html", "/no/such/folder");
}
