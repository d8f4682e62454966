#include "brim/apps/support/refusal.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "brim/base/bytes.h"
#include "brim/apps/support/program.h"
#include "brim/apps/support/train_plan.h"
#include "brim/train/predicted_time.h"
#include "brim/train/recompute_plan.h"
#include "brim/train/remedies.h"

namespace brim::apps {
namespace {

std::string text_of(const Rung& rung) { return fmt::format("{}", fmt::join(rung.remedies, ", ")); }

/// "3.8 MiB (3958784 bytes)", of the smallest budget whose limit is `bytes`.
std::string budget_for(const TrainFlags& flags, int64_t bytes) {
  TrainFlags other = flags;
  if (other.gpu) {
    bytes += other.gpu->context;  // of a budget, where without one it is a matter of course
    other.gpu = {};
  }
  other.host = {};
  other.budget = static_cast<int64_t>(static_cast<double>(bytes) / (1 - flags.margin / 100));
  while (other.limit() < bytes) ++other.budget;
  return fmt::format("{} ({} bytes)", format_bytes(other.budget), other.budget);
}

/// Nothing where the model cannot train with so few images.
std::optional<StepMemory> prediction_if_any(const TrainFlags& flags, const TrainData& data,
                                            int64_t batch) {
  try {
    return predict_memory(flags, data, batch).predicted;
  } catch (const ValueError&) {
    return {};  // batch norm wants two values per channel
  }
}

/// The same with what the flags leave to the budget: where that fits, the flags come to it.
std::optional<RecomputeChoice> planned_if_any(const TrainFlags& flags, const TrainData& data,
                                              int64_t batch) {
  try {
    return choose_recomputation({rehearsal_of(flags, data, batch), flags.planner}, flags.limit(),
                                {.drop = flags.may_drop(), .search_least = false});
  } catch (const ValueError&) {
    return {};
  }
}

double time_per_image(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  RehearsalOptions options = rehearsal_of(flags, data, batch);
  return predicted_seconds(options) / static_cast<double>(options.update_images());
}

/// A change of the run that was planned.
struct Proposal {
  std::string change;
  int64_t bytes = 0;
  double relative_time = 0;
};

/// `smaller` is of the flags as `fewer` has them.
std::vector<Proposal> proposals_that_fit(const TrainFlags& flags, const TrainFlags& fewer,
                                         const TrainData& data, const SmallerBatch& smaller,
                                         const LadderResult& ladder) {
  std::vector<Proposal> list;
  for (const Rung& rung : ladder.considered)
    if (rung.fits) list.push_back({text_of(rung), rung.memory.peak_reserved, rung.relative_time});
  if (smaller.fits)
    list.push_back({fmt::format("batch {}", smaller.fits->batch),
                    smaller.fits->memory.peak_reserved,
                    time_per_image(fewer, data, smaller.fits->batch) /
                        time_per_image(flags, data, flags.batch)});
  return list;
}

/// Where none fits: the one that needs least of those that train the same model, and the one of
/// another model that needs less still.
std::vector<Proposal> least_proposals(const TrainFlags& flags, const TrainData& data,
                                      const SmallerBatch& smaller, const LadderResult& ladder,
                                      int64_t less_than) {
  std::vector<Proposal> list;
  auto add_if_less = [&](Proposal proposal) {
    if (proposal.bytes < (list.empty() ? less_than : list.back().bytes))
      list.push_back(std::move(proposal));
  };
  auto least_rung = [&](bool of_another_model) -> Proposal {
    Proposal least{.bytes = std::numeric_limits<int64_t>::max()};
    for (const Rung& rung : ladder.considered)
      if (rung.changes_model == of_another_model && rung.memory.peak_reserved < least.bytes)
        least = {text_of(rung), rung.memory.peak_reserved};
    return least;
  };
  Proposal changed = least_rung(false);
  if (smaller.least.batch < flags.batch) {
    TrainFlags few = flags;
    few.batch = few.least_batch = smaller.least.batch;
    const Proposal fewer{fmt::format("batch {}", few.batch), least_bytes(few, data)};
    if (fewer.bytes <= changed.bytes) changed = fewer;
  }
  add_if_less(std::move(changed));
  add_if_less(least_rung(true));
  return list;
}

std::string beside(const TrainFlags& flags) {
  if (!flags.gpu || flags.gpu->context == 0) return "";
  return fmt::format(", beside {} of context", format_bytes(flags.gpu->context));
}

std::string place_of(const TrainFlags& flags) {
  if (flags.budget > 0 && flags.all_bytes() == flags.budget) return "budget";
  if (flags.gpu) return "memory of " + flags.device_name;
  return flags.host ? "memory left in " + flags.host->bound.name : "machine's memory";
}

std::string message_of(const TrainFlags& flags, const StepMemory& need, const std::string& cure) {
  const std::string why =
      need.state > flags.limit()
          ? fmt::format("parameters, buffers and optimizer state alone take {} ({} bytes)",
                        format_bytes(need.state), need.state)
          : fmt::format("a step at batch {} takes {} ({} bytes){}", flags.batch,
                        format_bytes(need.peak_reserved), need.peak_reserved, beside(flags));
  return fmt::format("{} does not fit {}the {} of {} ({} bytes): {}; {}", flags.model,
                     flags.margin > 0 ? "what a margin leaves of " : "", place_of(flags),
                     format_bytes(flags.all_bytes()), flags.all_bytes(), why, cure);
}

}  // namespace

LadderResult climb_ladder(const TrainFlags& flags, const TrainData& data) {
  return standard_ladder().climb({rehearsal_of(flags, data, flags.batch), flags.planner},
                                 {.limit = flags.limit()});
}

Refusal refusal_of(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
                   const LadderResult& ladder) {
  auto plan = [&](int64_t batch) {
    return batch == flags.batch ? need : prediction_if_any(flags, data, batch);
  };
  SmallerBatch smaller = find_smaller_batch(plan, flags.batch, flags.limit());
  TrainFlags fewer = flags;
  if (!smaller.fits && flags.plans_recompute()) {
    auto planned = [&](int64_t batch) -> std::optional<StepMemory> {
      if (auto choice = planned_if_any(flags, data, batch)) return choice->memory;
      return {};
    };
    smaller = find_smaller_batch(planned, flags.batch, flags.limit());
    if (smaller.fits) fewer.recompute = planned_if_any(flags, data, smaller.fits->batch)->recompute;
  }
  const std::vector<Proposal> fit = proposals_that_fit(flags, fewer, data, smaller, ladder);
  Refusal refusal{.least = flags.least_planned > 0 ? flags.least_planned : need.peak_reserved,
                  .fits = Json::array()};
  std::string cure = "the least budget that would do is " + budget_for(flags, refusal.least);
  if (flags.least_batch > 0) cure += fmt::format(", at batch {}", flags.batch);
  for (const Proposal& proposal : fit) {
    cure += fmt::format("; it fits with {}", proposal.change);
    refusal.fits.push_back({{"remedy", proposal.change},
                            {"predicted_peak_bytes", proposal.bytes},
                            {"relative_time", proposal.relative_time}});
  }
  if (fit.empty())
    for (const Proposal& least : least_proposals(flags, data, smaller, ladder, refusal.least))
      cure += fmt::format(", or {} with {}", budget_for(flags, least.bytes), least.change);
  refusal.message = message_of(flags, need, cure);
  return refusal;
}

void refuse(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
            Events& events) {
  const Refusal refusal = refusal_of(flags, data, need, climb_ladder(flags, data));
  events.write({{"event", "refused"},
                {"needed_bytes", need.peak_reserved},
                {"budget_bytes", flags.budget > 0 ? flags.budget : flags.limit()},
                {"least_possible_bytes", refusal.least},
                {"fits", refusal.fits}});
  events.open();
  throw DoesNotFit{refusal.message};
}

}  // namespace brim::apps
