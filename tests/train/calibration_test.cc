// The speed of a machine and the file that keeps it: taken when it is what was written here, and
// measured again, with a word about it, in every other case. Measuring itself is given a clock of
// the test's, so that nothing depends on how busy the machine is.
#include "brim/train/calibration.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "brim/base/parallel.h"
#include "brim/memory/account.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/train/measured_speed.h"
#include "brim/train/speed_file.h"

using namespace brim;
using namespace brim::testing;

namespace {

MeasuredSpeed some_speed(double factor = 1) {
  return {.speed = {.flops_per_second = factor * 123456789012.34567,
                    .bytes_per_second = factor * 9.87654321e10,
                    .seconds_per_op = 4.2e-7 / factor,
                    .of_ops = {{"conv2d backward", {factor * 1e11 / 3, factor * 3e10 / 7}},
                               {"batch_norm recompute", {factor * 2e9, factor * 1.5e10}}}},
          .rounds = 4,
          .spread = factor / 7};
}

Machine some_machine() { return {"a processor", "x86-64-v3", "revision 1", 2}; }

/// Calibrations of one folder, with what they said and how often they measured.
struct Calibrations {
  TempFolder place;
  std::string folder = place.path() + "/cache";
  std::vector<std::string> said;
  int measured = 0;

  MeasuredSpeed run(double factor = 1) {
    return calibrated_speed(Device::cpu(),
                            {.folder = folder,
                             .measure =
                                 [this, factor] {
                                   ++measured;
                                   return some_speed(factor);
                                 },
                             .say = [this](const std::string& text) { said.push_back(text); }});
  }
  std::string file() const { return calibration_file(Device::cpu(), folder); }
  void write(const std::string& text) const { std::ofstream(file(), std::ios::binary) << text; }
};

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { was_set_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

}  // namespace

TEST_CASE("a speed comes back from its text bit for bit") {
  const std::string text = to_text(some_speed(), some_machine());
  CHECK(speed_from(text, some_machine()) == some_speed());
  CHECK(std::ranges::count(text, '\n') == 2);
}

TEST_CASE("a text that lost its end or any bit is refused") {
  const std::string text = to_text(some_speed(), some_machine());
  for (size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(speed_from(text.substr(0, size), some_machine()), FileError);
  }
  for (size_t at = 0; at < text.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      CAPTURE(flipped);
      CHECK_THROWS_AS(speed_from(flipped, some_machine()), FileError);
    }
  for (std::string more : {"\n", " ", "{}\n", text.c_str()})
    CHECK_THROWS_AS(speed_from(text + more, some_machine()), FileError);
}

TEST_CASE("numbers out of range are refused, whatever the checksum says") {
  for (double bad : {0.0, -1.0, 1e30}) {
    MeasuredSpeed speed = some_speed();
    speed.speed.bytes_per_second = bad;
    CHECK_THROWS_AS(speed_from(to_text(speed, some_machine()), some_machine()), FileError);
    speed = some_speed();
    speed.speed.of_ops["linear forward"].flops_per_second = bad;
    CHECK_THROWS_AS(speed_from(to_text(speed, some_machine()), some_machine()), FileError);
    speed = some_speed();
    speed.spread = bad == 0 ? -0.1 : bad;
    CHECK_THROWS_AS(speed_from(to_text(speed, some_machine()), some_machine()), FileError);
    speed = some_speed();
    speed.rounds = bad > 0 ? 1001 : static_cast<int>(bad);
    CHECK_THROWS_AS(speed_from(to_text(speed, some_machine()), some_machine()), FileError);
  }
}

TEST_CASE("a text of another machine, build, instruction set or number of threads is refused") {
  const std::string text = to_text(some_speed(), some_machine());
  auto refused = [&](Machine machine, const std::string& why) {
    CHECK(contains(error_text<FileError>([&] { speed_from(text, machine); }), why));
  };
  refused({"another", "x86-64-v3", "revision 1", 2}, "processor \"a processor\"");
  refused({"a processor", "x86-64-v4", "revision 1", 2}, "instructions \"x86-64-v3\"");
  refused({"a processor", "x86-64-v3", "revision 2", 2}, "build \"revision 1\"");
  refused({"a processor", "x86-64-v3", "revision 1", 3}, "threads 2, where there is 3");
}

TEST_CASE("measured once, then taken from the file") {
  Calibrations c;
  CHECK(c.run() == some_speed());
  CHECK(c.run(2) == some_speed());
  CHECK(c.measured == 1);
  CHECK(c.said.empty());
  CHECK(std::filesystem::file_size(c.file()) > 0);
  // One file, and nothing left beside it.
  CHECK(std::distance(std::filesystem::directory_iterator(c.folder), {}) == 1);
}

TEST_CASE("each number of threads has a file of its own") {
  Calibrations c;
  const int before = num_threads();
  c.run();
  set_num_threads(before + 1);
  CHECK(c.run(2) == some_speed(2));
  set_num_threads(before);
  CHECK(c.run(3) == some_speed());
  CHECK(c.measured == 2);
  CHECK(c.said.empty());
}

TEST_CASE("what is damaged or of another machine is measured again, said, and replaced") {
  Machine other = this_machine();
  other.processor += " of another kind";
  const std::string good = to_text(some_speed(), this_machine());
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "damaged"},
           {"\n\n", "not JSON"},
           {"{}\n{}\n", "no 'format'"},
           {good.substr(0, good.size() / 2), "op times: it is damaged"},
           {std::string(1 << 17, ' '), "too much"},
           {to_text(some_speed(), other), "of another kind"}}) {
    CAPTURE(why);
    Calibrations c;
    c.run();
    c.write(text);
    CHECK(c.run(2) == some_speed(2));
    CHECK(c.measured == 2);
    REQUIRE(c.said.size() == 1);
    CHECK(c.said[0].find(why) != std::string::npos);
    CHECK(c.said[0].find(c.file()) != std::string::npos);
    CHECK(c.said[0].find('\n') == std::string::npos);
    CHECK(c.run(3) == some_speed(2));
    CHECK(c.said.size() == 1);
  }
}

TEST_CASE("where nothing can be kept, measuring is enough, with one warning") {
  Calibrations c;
  SUBCASE("a file is where the folder should be") { std::ofstream(c.folder) << "a file"; }
  SUBCASE("the file is a folder") { std::filesystem::create_directories(c.file()); }
  SUBCASE("the folder may not be written to") {
    std::filesystem::create_directories(c.folder);
    ::chmod(c.folder.c_str(), 0555);
    if (::access(c.folder.c_str(), W_OK) == 0) {
      MESSAGE("skipped: this user may write everywhere");
      return;
    }
  }
  CHECK(c.run() == some_speed());
  CHECK(c.measured == 1);
  REQUIRE(!c.said.empty());
  CHECK(c.said.size() <= 2);  // a folder in place of the file can be neither read nor written
  CHECK(c.said.back().find("the next run measures again") != std::string::npos);
  ::chmod(c.folder.c_str(), 0755);
}

TEST_CASE("without a folder nothing is kept or said") {
  Calibrations c;
  c.folder = "";
  CHECK(c.run() == some_speed());
  CHECK(c.run(2) == some_speed(2));
  CHECK(c.said.empty());
}

TEST_CASE("whoever calibrates at once leaves a whole file") {
  Calibrations c;
  std::vector<std::thread> writers;
  for (int i = 1; i <= 8; ++i)
    writers.emplace_back([&c, i] {
      for (int k = 0; k < 20; ++k) {
        auto measure = [i] { return some_speed(i); };
        auto ignore = [](const std::string&) {};
        std::error_code error;
        if (k % 3 == 0) std::filesystem::remove(c.file(), error);
        const MeasuredSpeed got = calibrated_speed(
            Device::cpu(), {.folder = c.folder, .measure = measure, .say = ignore});
        bool known = false;
        for (int j = 1; j <= 8; ++j) known = known || got == some_speed(j);
        if (!known) std::abort();
      }
    });
  for (std::thread& writer : writers) writer.join();
  c.run(9);
  CHECK(c.said.empty());
  CHECK(std::distance(std::filesystem::directory_iterator(c.folder), {}) == 1);
}

TEST_CASE("the cache folder is brim's, the user's, or the home folder's") {
  Variable home("HOME", "/home/somebody"), caches("XDG_CACHE_HOME", "/caches"),
      own("BRIM_CACHE_DIR", "/own");
  CHECK(cache_folder() == "/own");
  Variable no_own("BRIM_CACHE_DIR", "");
  CHECK(cache_folder() == "/caches/brim");
  Variable no_caches("XDG_CACHE_HOME", nullptr);
  CHECK(cache_folder() == "/home/somebody/.cache/brim");
  Variable no_home("HOME", nullptr);
  CHECK(cache_folder() == "");
}

TEST_CASE("rates follow from seconds: a clock twice as slow shows half of each" *
          doctest::skip(is_instrumented())) {
  auto with_ticks_of = [](double tick) {
    double time = 0;
    return measured_speed({.now = [=]() mutable { return time += tick; }});
  };
  // Each run takes one tick, also the tiniest op: half a tick at least is left for the work.
  const DeviceSpeed fast = with_ticks_of(1.0).speed, slow = with_ticks_of(2.0).speed;
  CHECK(fast.seconds_per_op == 1.0);
  CHECK(slow.seconds_per_op == 2.0);
  CHECK(fast.flops_per_second == doctest::Approx(2 * slow.flops_per_second));
  CHECK(fast.bytes_per_second == doctest::Approx(2 * slow.bytes_per_second));
  // relu and add move two and three times 24.5 MiB; the larger is the median of two.
  CHECK(fast.bytes_per_second == doctest::Approx(2 * 3 * 24.5 * (1 << 20)));
  for (const char* op : {"conv2d", "linear", "batch_norm", "normalized_conv2d", "max_pool2d"})
    for (const char* phase : {"forward", "recompute", "backward"}) {
      const std::string name = std::string(op) + " " + phase;
      CAPTURE(name);
      REQUIRE(fast.of_ops.contains(name));
      CHECK(fast.of_ops.at(name).flops_per_second ==
            doctest::Approx(2 * slow.of_ops.at(name).flops_per_second));
      CHECK(fast.of_ops.at(name).bytes_per_second > 0);
    }
}

TEST_CASE("a machine that is busy in one round and calm in another is as fast as it is calm" *
          doctest::skip(is_instrumented())) {
  auto measured = [](const std::function<double(int call)>& seconds) {
    // The clock is asked before and after each run.
    auto calls = std::make_shared<int>(0);
    auto time = std::make_shared<double>(0);
    return measured_speed({.now = [=] { return *time += seconds((*calls)++); }});
  };
  int calls_of_calm = 0;
  const MeasuredSpeed calm = measured([&](int call) {
    calls_of_calm = call + 1;
    return 1.0;
  });
  CHECK(calm.rounds == 3);
  CHECK(calm.spread == 0);
  const int of_a_round = calls_of_calm / calm.rounds;
  const MeasuredSpeed disturbed =
      measured([&](int call) { return call < 2 * of_a_round ? 3.0 : 1.0; });
  CHECK(disturbed.speed == calm.speed);
  CHECK(disturbed.rounds == 4);  // the third was faster, and the fourth no more than that
  CHECK(disturbed.spread == doctest::Approx(2));
  // Where it never settles, it ends all the same.
  const MeasuredSpeed restless = measured([&](int call) { return 20.0 - 2 * (call / of_a_round); });
  CHECK(restless.rounds == 8);
  CHECK(restless.spread == doctest::Approx(20.0 / 6 - 1));
}

TEST_CASE("measuring leaves the account of tensors alone") {
  auto account = memory::capped_host_account("direct", 1 << 20);  // far less than measuring takes
  memory::AccountScope scope(account);
  double time = 0;
  measured_speed({.now = [&] { return time += 1; }});
  CHECK(account->stats().requests == 0);
  CHECK_THROWS_AS(measured_speed({.device = Device::meta()}), DeviceError);
}
