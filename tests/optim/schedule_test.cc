#include "brim/optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::optim;

namespace {

// A few operations in double, each with half an ulp.
doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-14); }

void check_warmup(const Schedule& schedule, int64_t warmup) {
  double top = schedule.rate(warmup);
  for (int64_t s = 0; s < warmup; ++s)
    CHECK(schedule.rate(s) ==
          near(top * static_cast<double>(s + 1) / static_cast<double>(warmup + 1)));
}

}  // namespace

TEST_CASE("schedule: constant") {
  Schedule plain = ConstantSchedule{.rate = 0.3};
  for (int64_t s : {0, 1, 1000000}) CHECK(plain.rate(s) == 0.3);
  Schedule warm = ConstantSchedule{.rate = 0.3, .warmup = 4};
  check_warmup(warm, 4);
  CHECK(warm.rate(0) == near(0.06));
  CHECK(warm.rate(4) == 0.3);
}

TEST_CASE("schedule: cosine") {
  Schedule s = CosineSchedule{.rate = 0.4, .steps = 110, .final_rate = 0.01, .warmup = 10};
  check_warmup(s, 10);
  CHECK(s.rate(10) == 0.4);
  CHECK(s.rate(60) == near(0.205));  // half way: the mean
  for (int64_t i = 10; i < 110; ++i) {
    double t = static_cast<double>(i - 10) / 100;
    CHECK(s.rate(i) == near(0.01 + 0.39 * (1 + std::cos(std::numbers::pi * t)) / 2));
    CHECK(s.rate(i + 1) < s.rate(i));
  }
  CHECK(s.rate(110) == 0.01);
  CHECK(s.rate(100000) == 0.01);
}

TEST_CASE("schedule: one cycle is PyTorch's") {
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=0.8, total_steps=10)
  const double cosine[] = {0.03200000000000003,
                           0.41600000000000004,
                           0.8,
                           0.7603877056107791,
                           0.6493965231598104,
                           0.48900961754903144,
                           0.3109935824509686,
                           0.1506066768401896,
                           0.03961549438922103,
                           3.2e-06};
  Schedule c = OneCycleSchedule{.rate = 0.8, .steps = 10};
  for (int64_t s = 0; s < 10; ++s) CHECK(std::abs(c.rate(s) - cosine[s]) < 1e-15);
  // (max_lr=0.8, total_steps=10, pct_start=.5, div_factor=10, final_div_factor=4, "linear")
  const double linear[] = {0.08,
                           0.26,
                           0.44000000000000006,
                           0.62,
                           0.8,
                           0.644,
                           0.488,
                           0.3320000000000001,
                           0.17599999999999993,
                           0.020000000000000018};
  Schedule l = OneCycleSchedule{
      .rate = 0.8, .steps = 10, .rise = 0.5, .div = 10, .final_div = 4, .anneal = Anneal::linear};
  for (int64_t s = 0; s < 10; ++s) CHECK(std::abs(l.rate(s) - linear[s]) < 1e-15);
  CHECK(l.rate(1000) == l.rate(9));
  Schedule warm = OneCycleSchedule{.rate = 0.8, .steps = 14, .warmup = 4};
  check_warmup(warm, 4);
  for (int64_t s = 0; s < 10; ++s) CHECK(warm.rate(s + 4) == c.rate(s));
}

TEST_CASE("schedule: one cycle at its edges") {
  for (double rise : {0.0, 0.1, 1.0})
    for (int64_t steps : {1, 2, 10}) {
      CAPTURE(rise);
      CAPTURE(steps);
      Schedule s = OneCycleSchedule{.rate = 1, .steps = steps, .rise = rise};
      for (int64_t i = 0; i < 12; ++i) {
        CHECK(std::isfinite(s.rate(i)));
        CHECK(s.rate(i) >= 0);
        CHECK(s.rate(i) <= 1);
      }
    }
}

TEST_CASE("schedule: step") {
  Schedule s = StepSchedule{.rate = 1, .milestones = {3, 5}, .gamma = 0.1, .warmup = 1};
  check_warmup(s, 1);
  CHECK(s.rate(2) == 1);
  CHECK(s.rate(3) == near(0.1));
  CHECK(s.rate(4) == near(0.1));
  CHECK(s.rate(5) == near(0.01));
  CHECK(s.rate(1000) == near(0.01));
}

TEST_CASE("schedule: by name") {
  ScheduleOptions options{.rate = 0.5, .steps = 100, .warmup = 5};
  CHECK(make_schedule("constant", options).rate(50) == 0.5);
  CHECK(make_schedule("cosine", options).rate(100) == 0);
  CHECK(make_schedule("onecycle", options).rate(5) == near(0.02));
  Schedule step = make_schedule("step", options);
  CHECK(step.rate(49) == 0.5);
  CHECK(step.rate(50) == near(0.05));
  CHECK(step.rate(75) == near(0.005));
  CHECK_NOTHROW(make_schedule("step", {.steps = 1}).rate(0));
  CHECK_THROWS_WITH_AS(make_schedule("cosin", options),
                       "schedule: expected constant, cosine, onecycle or step, got 'cosin'; did "
                       "you mean 'cosine'?",
                       ValueError);
}

TEST_CASE("schedule: values out of range are named") {
  CHECK_THROWS_WITH_AS(Schedule(ConstantSchedule{.rate = -1}), "schedule: rate is out of range: -1",
                       ValueError);
  CHECK_THROWS_WITH_AS(Schedule(ConstantSchedule{.rate = std::nan("")}),
                       "schedule: rate is out of range: nan", ValueError);
  CHECK_THROWS_WITH_AS(Schedule(ConstantSchedule{.warmup = -2}),
                       "schedule: expected a warmup from 0, got -2", ValueError);
  CHECK_THROWS_WITH_AS(Schedule(CosineSchedule{.steps = 5, .warmup = 5}),
                       "schedule: expected more steps than the warmup's 5, got 5", ValueError);
  CHECK_THROWS_AS(Schedule(CosineSchedule{.steps = 5, .final_rate = -1}), ValueError);
  CHECK_THROWS_AS(Schedule(OneCycleSchedule{.steps = 5, .rise = 1.5}), ValueError);
  CHECK_THROWS_AS(Schedule(OneCycleSchedule{.steps = 5, .div = 0}), ValueError);
  CHECK_THROWS_AS(Schedule(OneCycleSchedule{.steps = 5, .final_div = -1}), ValueError);
  CHECK_THROWS_AS(Schedule(StepSchedule{.milestones = {4, 4}}), ValueError);
  CHECK_THROWS_AS(Schedule(StepSchedule{.milestones = {-1}}), ValueError);
  CHECK_THROWS_AS(Schedule(StepSchedule{.gamma = 0}), ValueError);
  CHECK_THROWS_AS(Schedule(ConstantSchedule{}).rate(-1), ValueError);
}
