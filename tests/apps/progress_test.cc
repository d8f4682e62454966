// What progress tells where standard output is no terminal.
#include "brim/apps/support/progress.h"

#include <doctest/doctest.h>

#include <iostream>
#include <sstream>
#include <thread>

using namespace brim;
using namespace brim::apps;

namespace {

/// What is printed to `std::cout` as long as it lives.
class Printed {
 public:
  ~Printed() { std::cout.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_ = std::cout.rdbuf(text_.rdbuf());
};

/// "loss 1.000  8 images/s  ...  2:05 left": 125.
int64_t seconds_left(const std::string& text) {
  const size_t end = text.find(" left\n");
  REQUIRE(end != std::string::npos);
  const size_t begin = text.rfind(' ', end - 1) + 1;
  int minutes = 0, seconds = 0;
  REQUIRE(std::sscanf(text.substr(begin, end - begin).c_str(), "%d:%d", &minutes, &seconds) == 2);
  return 60 * minutes + seconds;
}

}  // namespace

TEST_CASE("the time left follows from the steps of this run, not from those before a checkpoint") {
  Printed printed;
  Progress progress({.steps = 1000, .steps_per_epoch = 1000});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  // A quarter is told; two steps were made here, in at least 50 ms, and 250 are left.
  for (int64_t step : {749, 750})
    progress.step({.step = step, .epoch = 1, .loss = 1, .seconds = 0.1, .images = 8});
  const int64_t left = seconds_left(printed.text());
  CHECK(left >= 6);
  CHECK(left < 600);
}
