#include "brim/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "brim/base/error.h"
#include "brim/base/nearest.h"

namespace brim::optim {
namespace {

constexpr const char* kTag = "schedule";

double cosine_between(double from, double to, double t) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * t));
}

// Each schedule without its warm-up; `after` counts updates since then.
double body(const ConstantSchedule& s, int64_t) { return s.rate; }

double body(const CosineSchedule& s, int64_t after) {
  int64_t count = s.steps - s.warmup;
  if (after >= count) return s.final_rate;
  double t = static_cast<double>(after) / static_cast<double>(count);
  return cosine_between(s.rate, s.final_rate, t);
}

double body(const OneCycleSchedule& s, int64_t after) {
  auto anneal = [&](double from, double to, double t) {
    return s.anneal == Anneal::linear ? from + (to - from) * t : cosine_between(from, to, t);
  };
  auto count = static_cast<double>(s.steps - s.warmup);
  double last = count - 1, top = s.rise * count - 1, first = s.rate / s.div;
  double at = std::min(static_cast<double>(after), last);
  if (at < top) return anneal(first, s.rate, at / top);
  if (last <= top) return s.rate;
  return anneal(s.rate, first / s.final_div, (at - top) / (last - top));
}

double body(const StepSchedule& s, int64_t after) {
  int64_t step = after + s.warmup;
  auto passed = std::ranges::upper_bound(s.milestones, step) - s.milestones.begin();
  return s.rate * std::pow(s.gamma, static_cast<double>(passed));
}

void require_number(const char* what, double value, bool ok) {
  expect<ValueError>(ok && std::isfinite(value), kTag, "{} is out of range: {}", what, value);
}

template <class S>
void require_common(const S& s) {
  require_number("rate", s.rate, s.rate >= 0);
  expect<ValueError>(s.warmup >= 0, kTag, "expected a warmup from 0, got {}", s.warmup);
}

template <class S>
void require_length(const S& s) {
  expect<ValueError>(s.steps > s.warmup, kTag, "expected more steps than the warmup's {}, got {}",
                     s.warmup, s.steps);
}

}  // namespace

Schedule::Schedule(const ConstantSchedule& schedule) : schedule_(schedule) {
  require_common(schedule);
}

Schedule::Schedule(const CosineSchedule& schedule) : schedule_(schedule) {
  require_common(schedule);
  require_length(schedule);
  require_number("final_rate", schedule.final_rate, schedule.final_rate >= 0);
}

Schedule::Schedule(const OneCycleSchedule& schedule) : schedule_(schedule) {
  require_common(schedule);
  require_length(schedule);
  require_number("rise", schedule.rise, schedule.rise >= 0 && schedule.rise <= 1);
  require_number("div", schedule.div, schedule.div > 0);
  require_number("final_div", schedule.final_div, schedule.final_div > 0);
}

Schedule::Schedule(const StepSchedule& schedule) : schedule_(schedule) {
  require_common(schedule);
  require_number("gamma", schedule.gamma, schedule.gamma > 0);
  const std::vector<int64_t>& milestones = schedule.milestones;
  bool increasing =
      std::ranges::adjacent_find(milestones, std::greater_equal()) == milestones.end();
  expect<ValueError>(increasing && (milestones.empty() || milestones.front() >= 0), kTag,
                     "expected increasing milestones from 0");
}

double Schedule::rate(int64_t step) const {
  expect<ValueError>(step >= 0, kTag, "expected a step from 0, got {}", step);
  return std::visit(
      [&](const auto& s) {
        if (step >= s.warmup) return body(s, step - s.warmup);
        return body(s, 0) * static_cast<double>(step + 1) / static_cast<double>(s.warmup + 1);
      },
      schedule_);
}

Schedule make_schedule(const std::string& name, const ScheduleOptions& o) {
  if (name == "constant") return ConstantSchedule{.rate = o.rate, .warmup = o.warmup};
  if (name == "cosine")
    return CosineSchedule{
        .rate = o.rate, .steps = o.steps, .final_rate = o.final_rate, .warmup = o.warmup};
  if (name == "onecycle")
    return OneCycleSchedule{.rate = o.rate,
                            .steps = o.steps,
                            .rise = o.rise,
                            .div = o.div,
                            .final_div = o.final_div,
                            .anneal = o.anneal,
                            .warmup = o.warmup};
  if (name == "step") {
    StepSchedule schedule{
        .rate = o.rate, .milestones = o.milestones, .gamma = o.gamma, .warmup = o.warmup};
    // A short training may have no update at one of them.
    if (o.milestones.empty())
      for (int64_t at : {o.steps / 2, o.steps * 3 / 4})
        if (at > 0 && (schedule.milestones.empty() || at > schedule.milestones.back()))
          schedule.milestones.push_back(at);
    return schedule;
  }
  const std::vector<std::string> known{"constant", "cosine", "onecycle", "step"};
  raise<ValueError>(kTag, "expected constant, cosine, onecycle or step, got '{}'{}", name,
                    did_you_mean(name, known));
}

}  // namespace brim::optim
