// What to change where a training does not fit its budget. A remedy is one change; the ladder tries
// them alone and together on the meta device, and takes the one with the least predicted time that
// fits. A remedy of your own joins with `add`, and the ladder needs to know no more of it than this
// interface says.
//
//   Ladder ladder = standard_ladder();
//   LadderResult result = ladder.climb({rehearsal, "arena"}, {.limit = 300 << 20});
//   fmt::print("{}", to_table(result));
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/train/recompute_means.h"
#include "brim/train/rehearsal.h"
#include "brim/train/step_memory.h"

namespace brim {

/// A training as far as its memory and its time follow from it.
struct TrainingSetup {
  RehearsalOptions rehearsal;
  std::string planner = "arena";  ///< or "caching", "direct"
  /// Set while a training is still being changed: saved tensors are planned for the limit when it
  /// is as it will be, and what it holds is what it holds then.
  std::optional<RecomputeMeans> will_plan = {};
};

/// What the training holds; for the arena its plan is made and rehearsed. A device of `capacity`
/// bytes matters to other planners (`MeasureOptions`); where they run out of it, what they would
/// hold without a limit.
StepMemory predicted_memory(const TrainingSetup& setup,
                            int64_t capacity = memory::Source::kUnlimited);

/// What a remedy makes of a training, or why it does not apply to it.
struct Offer {
  std::optional<TrainingSetup> setup;
  /// "4 micro-batches of 32", or "already in force", "gradients are clipped by their norm".
  std::string text;
};

class Remedy {
 public:
  virtual ~Remedy() = default;
  /// "micro-batches".
  virtual std::string name() const = 0;
  /// Whether losses and weights are other ones with it, beyond rounding or by it.
  virtual bool changes_numbers() const = 0;
  /// Whether it waits to be asked for, and is never chosen.
  virtual bool is_proposed_only() const { return changes_numbers(); }
  /// Whether it is another model that trains with it.
  virtual bool changes_model() const { return false; }
  /// Whether it plans what is saved of the step, and so comes after all that change the step.
  virtual bool plans_saved() const { return false; }
  /// The mildest change of its kind with which `setup` needs at most `limit` bytes; where none
  /// is enough, the strongest.
  virtual Offer offer(const TrainingSetup& setup, int64_t limit) const = 0;
};

struct LadderOptions {
  int64_t limit = 0;  ///< bytes
  /// Whether remedies that are otherwise only proposed may be chosen; they are considered anyhow.
  bool may_choose_all = false;
};

/// A training that was considered.
struct Rung {
  std::vector<std::string> remedies;  ///< their texts; none: as it was asked for
  std::vector<std::string> names;
  TrainingSetup setup;
  StepMemory memory;
  double relative_time = 1;  ///< predicted, of what was asked for
  bool changes_numbers = false;
  bool is_proposed_only = false;
  bool changes_model = false;
  bool fits = false;
};

/// A remedy that does not apply.
struct NotOffered {
  std::string name, why;
};

struct LadderResult {
  std::vector<Rung> considered;  ///< the first is what was asked for
  std::vector<NotOffered> not_offered;
  std::optional<size_t> chosen;  ///< of those considered; none where nothing fits that may be taken
  int64_t limit = 0;
};

class Ladder {
 public:
  Ladder& add(std::unique_ptr<Remedy> remedy);
  /// Considers the training as it is, with each remedy alone, and, where none of those is enough
  /// that may be chosen unasked, with all of these together, and with each of the others, where it
  /// is not enough alone, and all of these; where still nothing fits that trains the same model,
  /// with several of the others. What is saved is planned last, for the step that all other
  /// remedies made. A combination that takes more bytes than a part of it alone, and no less time,
  /// is left out. Of what fits and may be chosen it takes the least predicted time, and of equal
  /// times the fewest remedies.
  LadderResult climb(const TrainingSetup& wanted, const LadderOptions& options) const;

 private:
  std::vector<std::unique_ptr<Remedy>> remedies_;
};

/// With all remedies that there are (train/standard_ladder.cc).
Ladder standard_ladder();

/// One line for each that was considered: remedies, bytes, time, verdict.
std::string to_table(const LadderResult& result);

}  // namespace brim
