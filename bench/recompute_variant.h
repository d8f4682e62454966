// Ways to run the same training: with everything kept, with what is dropped by rule, or as planned
// for a number of bytes. What each is said to hold and to take, and what it takes beside the first
// of them, measured in turns. A run that does not hold what was predicted ends the program.
#pragma once

#include <cstdio>
#include <optional>
#include <set>

#include "brim/base/bytes.h"
#include "brim/bench/timed_training.h"
#include "brim/train/predicted_time.h"
#include "brim/train/recompute_plan.h"

namespace brim::bench {

struct Variant {
  std::string name;  ///< "off", "free", "40%"
  TrainingShape shape;
  RecomputeOptions recompute;
  bool fits = true;  ///< within the bytes that it was planned for; where not, it needs least
  RehearsedPlan plan;
  double seconds = 0;           ///< of a step, by the roofline
  std::optional<double> bound;  ///< that no plan within the bytes can go below, of "off"'s seconds
  std::optional<int64_t> dropped;  ///< values
  int64_t again = 0;               ///< calls that run again in an update
  double solve_seconds = 0;

  int64_t peak() const { return plan.predicted.peak_reserved; }
};

/// Calls that run again in an update, be it more than once or by rows.
inline int64_t calls_made_again(RehearsalOptions training) {
  struct Again final : autograd::OpObserver {
    void ran(const autograd::OpEvent& event) override {
      if (event.phase == autograd::Phase::recompute) calls.insert(event.node);
    }
    std::set<const autograd::Node*> calls;
  } again;
  training = training.one_update();
  measure_on_meta(memory::planner_named("direct"),
                  [&](const auto& state_is_held) { rehearse(training, state_is_held); });
  return std::ssize(again.calls);
}

inline Variant make_variant(std::string name, const TrainingShape& shape,
                            const RecomputeOptions& recompute) {
  const RehearsalOptions rehearsal = rehearsal_of(shape, recompute);
  Variant variant{.name = std::move(name), .shape = shape, .recompute = recompute};
  variant.plan =
      plan_on_meta([&](const auto& state_is_held) { rehearse(rehearsal, state_is_held); });
  variant.plan.trace = {};
  variant.seconds = predicted_seconds(rehearsal);
  variant.again = calls_made_again(rehearsal);
  return variant;
}

/// Everything is held from forward to backward: what the others are measured against.
inline Variant keep_everything(const TrainingShape& shape) {
  return make_variant("off", shape, {});
}

/// The same where each activation behind a norm and each residual sum is a call of its own, as
/// other frameworks run them. It takes longer, and holds more where branches are concatenated:
/// their results are saved beside the concatenation.
inline Variant keep_everything_unfused(TrainingShape shape) {
  shape.fused = false;
  return make_variant("unfused", shape, {});
}

/// The tape in so many segments of equal length.
inline Variant in_segments(const TrainingShape& shape, int64_t segments, int64_t calls) {
  return make_variant(fmt::format("segments={}", segments), shape,
                      segmented_recomputation(segments, ceil_div(calls, segments)));
}

/// What a step's tape records.
inline int64_t recorded_calls(const TrainingShape& shape) {
  return std::ssize(record_step(rehearsal_of(shape)).values);
}

/// Planned for `limit` bytes.
inline Variant within(std::string name, const TrainingShape& shape, int64_t limit) {
  const RecomputeChoice choice = choose_recomputation({rehearsal_of(shape), "arena"}, limit);
  Variant variant = make_variant(std::move(name), shape, choice.recompute);
  const memory::RecomputePlan& plan = choice.plan;
  variant.fits = choice.fits;
  if (!plan.fates.empty())
    variant.bound = 1 + plan.bound_seconds / (plan.seconds - plan.extra_seconds);
  variant.dropped = choice.dropped;
  variant.solve_seconds = choice.seconds;
  return variant;
}

/// Of the same rounds.
struct Turns {
  std::vector<double> seconds, reference;  ///< of it, and of the first variant

  /// Of at least one round: to the first variant.
  Spread ratio() const { return spread_of(ratios()); }
  /// To another one with as many rounds, be it of another group: of what each took beside the
  /// first.
  Spread ratio_to(const Turns& other) const {
    std::vector<double> own = ratios(), others = other.ratios();
    for (size_t i = 0; i < own.size(); ++i) own[i] /= others[i];
    return spread_of(std::move(own));
  }

 private:
  std::vector<double> ratios() const {
    std::vector<double> ratios;
    for (size_t i = 0; i < seconds.size(); ++i) ratios.push_back(seconds[i] / reference[i]);
    return ratios;
  }
};

struct TurnOptions {
  int rounds = 7;                                     ///< 0: nothing runs
  int64_t memory = memory::host_memory() / 100 * 85;  ///< for what is measured together
};

/// Numbers of variants that fit the memory together, the first one in each group.
inline std::vector<std::vector<size_t>> groups_of(const std::vector<Variant>& variants,
                                                  int64_t memory) {
  std::vector<std::vector<size_t>> groups{{0}};
  int64_t held = variants[0].peak();
  for (size_t i = 1; i < variants.size(); ++i) {
    if (held + variants[i].peak() > memory && groups.back().size() > 1) {
      groups.push_back({0});
      held = variants[0].peak();
    }
    groups.back().push_back(i);
    held += variants[i].peak();
    expect<ValueError>(held <= memory, "measure",
                       "{} takes {} for '{}' and {} for '{}', together more than the {} to measure "
                       "in: take a smaller batch",
                       variants[0].shape.name(), format_bytes(variants[0].peak()), variants[0].name,
                       format_bytes(variants[i].peak()), variants[i].name, format_bytes(memory));
  }
  return groups;
}

inline void expect_as_predicted(const Variant& variant, const memory::AccountStats& measured) {
  const StepMemory& predicted = variant.plan.predicted;
  expect<ValueError>(measured.peak_reserved == predicted.peak_reserved &&
                         measured.peak_live == predicted.peak_live && measured.mismatches == 0,
                     "measure",
                     "{}, '{}': expected peaks of {} bytes reserved and {} live, measured {} and "
                     "{}, with {} requests that were not planned",
                     variant.shape.name(), variant.name, predicted.peak_reserved,
                     predicted.peak_live, measured.peak_reserved, measured.peak_live,
                     measured.mismatches);
}

/// One step of each in every round, the order turning; one step of each before, to warm up.
inline void measure_group(const std::vector<Variant>& variants, const std::vector<size_t>& group,
                          int rounds, std::vector<Turns>& turns) {
  std::vector<std::unique_ptr<TimedTraining>> trainings;
  for (size_t i : group)
    trainings.push_back(std::make_unique<TimedTraining>(variants[i].shape, variants[i].recompute,
                                                        variants[i].plan));
  for (const auto& training : trainings) training->step();
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> seconds(group.size());
    for (size_t k = 0; k < group.size(); ++k) {
      const size_t at = (k + static_cast<size_t>(round)) % group.size();
      seconds[at] = trainings[at]->step();
    }
    fmt::print(stderr, "  round {} of {}:", round + 1, rounds);
    for (size_t k = 0; k < group.size(); ++k) {
      turns[group[k]].seconds.push_back(seconds[k]);
      turns[group[k]].reference.push_back(seconds[0]);
      fmt::print(stderr, " {} {:.3f}", variants[group[k]].name, seconds[k]);
    }
    fmt::print(stderr, " s\n");
  }
  for (size_t k = 0; k < group.size(); ++k)
    expect_as_predicted(variants[group[k]], trainings[k]->stats());
}

/// Of each variant; of the first, the rounds of all groups. Throws `ValueError` where the first
/// and one more do not fit the memory, or where a run did not hold what was predicted.
inline std::vector<Turns> take_turns(const std::vector<Variant>& variants,
                                     const TurnOptions& options) {
  std::vector<Turns> turns(variants.size());
  if (options.rounds == 0) return turns;
  for (const std::vector<size_t>& group : groups_of(variants, options.memory))
    measure_group(variants, group, options.rounds, turns);
  return turns;
}

}  // namespace brim::bench
