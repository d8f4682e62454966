// What the README's first command promises.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "brim/tests/support/subprocess.h"

TEST_CASE("train without a flag learns the drawn shapes to 95%") {
  brim::testing::Finished run = brim::testing::run_command("examples/train --quiet --json -");
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  std::string last = run.out.substr(run.out.rfind('\n', run.out.size() - 2) + 1);
  auto done = nlohmann::json::parse(last);
  REQUIRE(done["event"] == "done");
  CHECK(done["val_accuracy"] >= 0.95);
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
}
