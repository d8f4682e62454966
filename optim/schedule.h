// Learning rates as functions of the update's number, from 0. Pure: a schedule has no state to
// save, and going on from a checkpoint needs only the number.
//
//   optim::Schedule schedule = optim::CosineSchedule{.rate = 0.1, .steps = 1000, .warmup = 50};
//   sgd.step(schedule.rate(sgd.steps()));
//
// Each can start with a linear warm-up of W updates: update s < W has (s + 1) / (W + 1) of the rate
// that update W has, with which the schedule itself begins. After its end the last rate stays.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace brim::optim {

struct ConstantSchedule {
  double rate = 0.1;
  int64_t warmup = 0;
};

/// Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts. With t going from 0 at the end of
/// the warm-up to 1 at update `steps`: final_rate + (rate - final_rate) * (1 + cos(pi t)) / 2.
struct CosineSchedule {
  double rate = 0.1;
  int64_t steps = 0;  ///< of the whole training, warm-up included
  double final_rate = 0;
  int64_t warmup = 0;
};

enum class Anneal { cosine, linear };

/// Smith and Topin, "Super-Convergence", 2019, as PyTorch's OneCycleLR: from rate / div up to
/// `rate`, reached at update rise * n - 1, then down to rate / div / final_div at update n - 1, of
/// the n updates after the warm-up.
struct OneCycleSchedule {
  double rate = 0.1;  ///< the largest
  int64_t steps = 0;  ///< of the whole training, warm-up included
  double rise = 0.3;  ///< the part of the updates, in [0, 1], that goes up
  double div = 25, final_div = 1e4;
  Anneal anneal = Anneal::cosine;
  int64_t warmup = 0;
};

/// rate * gamma^(number of milestones up to this update).
struct StepSchedule {
  double rate = 0.1;
  std::vector<int64_t> milestones;  ///< updates, increasing
  double gamma = 0.1;
  int64_t warmup = 0;
};

class Schedule {
 public:
  /// Each throws `ValueError` naming the value that is out of range.
  Schedule(const ConstantSchedule& schedule);  // NOLINT(google-explicit-constructor)
  Schedule(const CosineSchedule& schedule);    // NOLINT(google-explicit-constructor)
  Schedule(const OneCycleSchedule& schedule);  // NOLINT(google-explicit-constructor)
  Schedule(const StepSchedule& schedule);      // NOLINT(google-explicit-constructor)

  /// The rate of update `step`; throws `ValueError` when it is negative.
  double rate(int64_t step) const;

 private:
  std::variant<ConstantSchedule, CosineSchedule, OneCycleSchedule, StepSchedule> schedule_;
};

/// What `make_schedule` takes; each schedule reads what it has.
struct ScheduleOptions {
  double rate = 0.1;
  int64_t steps = 0;
  int64_t warmup = 0;
  double final_rate = 0;
  double rise = 0.3, div = 25, final_div = 1e4;
  Anneal anneal = Anneal::cosine;
  /// Without any, those of ResNets on CIFAR: at 1/2 and 3/4 of `steps`.
  std::vector<int64_t> milestones;
  double gamma = 0.1;
};

/// "constant", "cosine", "onecycle" or "step"; throws `ValueError` with the nearest name otherwise.
Schedule make_schedule(const std::string& name, const ScheduleOptions& options);

}  // namespace brim::optim
