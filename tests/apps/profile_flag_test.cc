// --profile from outside: tables at the end, an event, a page that is whole, and the same training
// in the same bytes.
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::testing;

namespace {

const std::string kModel = "--batch 8" + kSynthetic;

}  // namespace

TEST_CASE("it says where the time goes, and changes neither bits nor bytes") {
  TempFolder folder;
  const std::string page = folder.path() + "/time.html";
  Finished run = train(kModel + " --steps 6 --profile " + page);
  CAPTURE(run.out);
  CHECK(run.code == 0);
  CHECK(run.out.find("profile:\n  updates 3, 4, 5: ") != std::string::npos);
  CHECK(run.out.find(" in no launch\n") != std::string::npos);
  CHECK(run.out.find("conv2d backward ") != std::string::npos);
  CHECK(run.out.find("\n  at this machine's peak, ") != std::string::npos);
  CHECK(run.out.find(" with no more excess\n") != std::string::npos);
  const std::string text = bytes_of(page);
  CHECK(text.starts_with("<!doctype html>"));
  CHECK(text.ends_with("</html>\n"));
  CHECK(text.find("resnet20, 32x32, batch 8, in float32, 1 thread<") != std::string::npos);
  CHECK(text.find("data-value=\"layer3.2.conv2\"") != std::string::npos);

  const std::string to_events = kModel + " --steps 6 --json -";
  const auto profiled = events_of(train(to_events + " --profile " + page).out),
             plain = events_of(train(to_events).out);
  CHECK(losses_of(profiled) == losses_of(plain));
  CHECK(profiled.back()["peak_bytes"] == plain.back()["peak_bytes"]);
  CHECK(profiled.back()["mismatches"] == 0);
  CHECK(plain[plain.size() - 2]["event"] != "profile");
  const json profile = profiled[profiled.size() - 2];
  CHECK(profile["event"] == "profile");
  CHECK(profile["updates"] == json::array({3, 4, 5}));
  CHECK(profile["seconds"] > 0);
  int64_t launches = 0;
  for (const json& op : profile["ops"]) {
    launches += op["launches"].get<int64_t>();
    CHECK(op["least_seconds"] > 0);
  }
  CHECK(launches == profile["launched"]["launches"]);
}

TEST_CASE("a run that ends within its warm-up says so, and its page is whole") {
  TempFolder folder;
  const std::string page = folder.path() + "/time.html";
  Finished run = train(kModel + " --steps 2 --profile " + page);
  CHECK(run.code == 0);
  CHECK(run.out.find("no update was profiled") != std::string::npos);
  CHECK(bytes_of(page).ends_with("</html>\n"));
}

TEST_CASE("bad flags are refused before anything runs") {
  check_error(kModel + " --profile page.txt", "--profile writes .html, got 'page.txt'");
  check_error(kModel + " --profile /no/such/folder/page.html", "/no/such/folder");
}
