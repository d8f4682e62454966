// The curve from a clock that the test sets, so that no result depends on the machine; the knee
// against what it promises of noise.
#include "brim/train/batch_speed.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "brim/base/error.h"
#include "brim/base/random.h"

using namespace brim;

namespace {

using Batches = std::vector<int64_t>;

/// Steps that take the seconds that the test says, one after another for each batch.
class FakeMachine {
 public:
  explicit FakeMachine(std::map<int64_t, std::vector<double>> seconds)
      : seconds_(std::move(seconds)) {}

  BatchSpeedOptions options(Batches batches) {
    return {.batches = std::move(batches),
            .step =
                [this](int64_t batch) {
                  calls.push_back(batch);
                  now_ += seconds_.at(batch).at(given_[batch]++);
                },
            .now = [this] { return now_; }};
  }

  Batches calls;

 private:
  std::map<int64_t, std::vector<double>> seconds_;
  std::map<int64_t, size_t> given_;
  double now_ = 1e6;  // where a double has steps of 2^-33
};

}  // namespace

TEST_CASE("batch speed: candidates are powers of two and the middle between them, and the end") {
  CHECK(candidate_batches({.most = 1}) == Batches{1});
  CHECK(candidate_batches({.most = 2}) == Batches{1, 2});
  CHECK(candidate_batches({.most = 16}) == Batches{1, 2, 3, 4, 6, 8, 12, 16});
  CHECK(candidate_batches({.most = 49}) == Batches{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 49});
  CHECK(candidate_batches({.least = 2, .most = 7}) == Batches{2, 3, 4, 6, 7});
  CHECK(candidate_batches({.least = 5, .most = 30}) == Batches{6, 8, 12, 16, 24, 30});
  CHECK(candidate_batches({.least = 33, .most = 33}) == Batches{33});
}

TEST_CASE("batch speed: candidates are multiples") {
  CHECK(candidate_batches({.most = 64, .multiple = 8}) == Batches{8, 16, 24, 32, 48, 64});
  CHECK(candidate_batches({.most = 59, .multiple = 10}) == Batches{10, 20, 30, 40, 50});
  CHECK(candidate_batches({.least = 17, .most = 71, .multiple = 8}) == Batches{24, 32, 48, 64});
  for (int64_t multiple : {1, 3, 8})
    for (int64_t least = 1; least <= 40; ++least)
      for (int64_t most = least + multiple; most < 100; ++most) {
        Batches batches = candidate_batches({.least = least, .most = most, .multiple = multiple});
        REQUIRE(batches.front() >= least);
        REQUIRE(batches.back() == most / multiple * multiple);
        for (size_t i = 0; i < batches.size(); ++i) {
          REQUIRE(batches[i] % multiple == 0);
          if (i > 0) REQUIRE(batches[i - 1] < batches[i]);
        }
      }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(candidate_batches({.most = kMost}).size() == 126);  // 1, then two for each power, the end
}

TEST_CASE("batch speed: where there is no candidate, that is said") {
  CHECK_THROWS_WITH_AS(candidate_batches({.least = 9, .most = 15, .multiple = 8}),
                       "batch speed: there is no multiple of 8 from 9 to 15", ValueError);
  CHECK_THROWS_AS(candidate_batches({.least = 2, .most = 1}), ValueError);
  CHECK_THROWS_AS(candidate_batches({.least = 0, .most = 1}), ValueError);
  CHECK_THROWS_AS(candidate_batches({.most = 4, .multiple = 0}), ValueError);
}

TEST_CASE("batch speed: one step of each batch is not timed, the median of the others counts") {
  FakeMachine machine({{8, {100, 4, 1, 2}}, {16, {0.5, 2, 2, 64}}});
  std::vector<SpeedPoint> curve = measure_speed(machine.options({8, 16}));
  CHECK(machine.calls == Batches{8, 8, 8, 8, 16, 16, 16, 16});
  REQUIRE(curve.size() == 2);
  CHECK(curve[0].batch == 8);
  CHECK(curve[0].images_per_second == 4);  // 8 images in 2 s
  CHECK(curve[1].batch == 16);
  CHECK(curve[1].images_per_second == 8);
}

TEST_CASE("batch speed: repeats of one, and of an even number") {
  FakeMachine once({{8, {100, 4}}});
  BatchSpeedOptions options = once.options({8});
  options.repeats = 1;
  CHECK(measure_speed(options).front().images_per_second == 2);
  CHECK(once.calls.size() == 2);
  FakeMachine even({{8, {100, 64, 1, 3, 0.5}}});
  options = even.options({8});
  options.repeats = 4;
  CHECK(measure_speed(options).front().images_per_second == 4);  // between 1 and 3
  CHECK(even.calls.size() == 5);
}

TEST_CASE("batch speed: without a clock it is the machine's") {
  BatchSpeedOptions options{.batches = {4}, .step = [](int64_t) {
                              volatile int work = 0;
                              for (int i = 0; i < 1000; ++i) work = work + 1;
                            }};
  double speed = measure_speed(options).front().images_per_second;
  CHECK(speed > 0);
  CHECK(std::isfinite(speed));
}

TEST_CASE("batch speed: the error of a step passes through, and options are checked") {
  FakeMachine machine({{8, {1, 1, 1, 1}}});
  BatchSpeedOptions options = machine.options({8});
  options.step = [](int64_t) { throw ValueError("step", "no"); };
  CHECK_THROWS_WITH_AS(measure_speed(options), "step: no", ValueError);
  options = machine.options({8});
  options.now = [] { return 1.0; };
  CHECK_THROWS_WITH_AS(measure_speed(options), "batch speed: the clock stands still at batch 8",
                       ValueError);
  CHECK_THROWS_AS(measure_speed(machine.options({})), ValueError);
  CHECK_THROWS_WITH_AS(measure_speed(machine.options({0})),
                       "batch speed: expected batches above 0, got 0", ValueError);
  options = machine.options({8});
  options.repeats = 0;
  CHECK_THROWS_AS(measure_speed(options), ValueError);
  CHECK_THROWS_AS(measure_speed({.batches = {8}}), ValueError);
}

TEST_CASE("batch speed: the knee is the smallest batch with the share of the best speed") {
  std::vector<SpeedPoint> curve{{4, 500}, {8, 812}, {16, 1101}, {32, 1150}, {64, 1120}};
  CHECK(knee(curve).batch == 16);  // 95% of 1150 are 1092.5
  CHECK(knee(curve).images_per_second == 1101);
  CHECK(knee(curve, 0.96).batch == 32);
  CHECK(knee(curve, 1).batch == 32);
  CHECK(knee(curve, 0.7).batch == 8);
  CHECK(knee(curve, 0.01).batch == 4);
  std::vector<SpeedPoint> any_order{{64, 1120}, {16, 1101}, {4, 500}, {32, 1150}, {8, 812}};
  CHECK(knee(any_order).batch == 16);
}

TEST_CASE("batch speed: of equal speeds the smaller batch; one point is its own knee") {
  std::vector<SpeedPoint> tied{{8, 100}, {16, 100}, {32, 100}};
  CHECK(knee(tied, 1).batch == 8);
  std::vector<SpeedPoint> exact{{8, 50}, {16, 100}};
  CHECK(knee(exact, 0.5).batch == 8);  // at least the share
  CHECK(knee(std::vector<SpeedPoint>{{7, 3}}).batch == 7);
}

TEST_CASE("batch speed: a curve or a share that has no knee is refused") {
  std::vector<SpeedPoint> good{{8, 1}};
  CHECK_THROWS_WITH_AS(knee({}), "batch speed: expected a point of the curve", ValueError);
  CHECK_THROWS_AS(draw_speed({}), ValueError);
  for (double share : {0.0, -0.5, 1.01, std::nan("")})
    CHECK_THROWS_AS(knee(good, share), ValueError);
  for (double speed : {0.0, -1.0, std::nan(""), static_cast<double>(INFINITY)})
    CHECK_THROWS_AS(knee(std::vector<SpeedPoint>{{8, speed}}), ValueError);
}

TEST_CASE("batch speed: what noise can do to the knee is bounded") {
  RandomStream random{RandomKey{5}};
  auto uniform = [&] { return static_cast<double>(random.below(1 << 20)) / (1 << 20); };
  constexpr double kShare = 0.95;
  int moved = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const double noise = 0.1 * uniform(), half = 1 + 31 * uniform();
    std::vector<SpeedPoint> truth, measured;
    for (int64_t batch : candidate_batches({.most = 256})) {
      auto images = static_cast<double>(batch);
      truth.push_back({batch, 1000 * images / (images + half)});
      measured.push_back(truth.back());
      measured.back().images_per_second *= 1 + noise * (2 * uniform() - 1);
    }
    const double best = truth.back().images_per_second;
    const int64_t found = knee(measured, kShare).batch;
    moved += found != knee(truth, kShare).batch;
    for (const SpeedPoint& point : truth) {
      // Rounding: a few operations in double.
      if (point.batch == found)
        REQUIRE(point.images_per_second >= kShare * (1 - noise) / (1 + noise) * best * (1 - 1e-14));
      if (point.batch < found)
        REQUIRE(point.images_per_second < kShare * (1 + noise) / (1 - noise) * best * (1 + 1e-14));
    }
  }
  CHECK(moved > 100);  // the noise is enough to matter
}

TEST_CASE("batch speed: the curve for a terminal") {
  std::vector<SpeedPoint> curve{{8, 812.4}, {16, 1101}, {128, 1100.4}};
  CHECK(draw_speed(curve) ==
        "batch   8   812 images/s  ######################\n"
        "batch  16  1101 images/s  ##############################   <- the knee\n"
        "batch 128  1100 images/s  ##############################\n");
  std::vector<SpeedPoint> slow{{1, 0.04}, {2, 9.96}};
  CHECK(draw_speed(slow) ==
        "batch 1   0.0 images/s  #\n"
        "batch 2  10.0 images/s  ##############################   <- the knee\n");
}
