#include "brim/train/ladder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "brim/base/bytes.h"
#include "brim/train/predicted_time.h"
#include "brim/train/recompute_plan.h"
#include "brim/train/rehearsed_plan.h"

namespace brim {
namespace {

// Times nearer to each other than this are equal: the prediction is no better.
constexpr double kSameTime = 0.001;

class Climb {
 public:
  Climb(const std::vector<std::unique_ptr<Remedy>>& remedies, const TrainingSetup& wanted,
        const LadderOptions& options)
      : remedies_(remedies), options_(options), seconds_(predicted_seconds(wanted.rehearsal)) {
    result_.limit = options.limit;
    add({.setup = wanted});
  }

  LadderResult climb() && {
    for (const auto& remedy : remedies_) try_alone(*remedy);
    if (!one_fits({.unasked = true})) {
      try_together({}, /*least=*/2);
      try_proposed();
      if (!one_fits({.same_model = true})) try_several();
    }
    leave_out_what_helps_nothing();
    result_.chosen = best([&](const Rung& rung) {
      return rung.fits && (options_.may_choose_all || !rung.is_proposed_only);
    });
    return std::move(result_);
  }

 private:
  using Remedies = std::vector<const Remedy*>;

  struct Which {
    bool unasked = false, same_model = false;
  };
  bool one_fits(const Which& which) const {
    return std::ranges::any_of(result_.considered, [&](const Rung& rung) {
      return rung.fits && !(which.unasked && rung.is_proposed_only) &&
             !(which.same_model && rung.changes_model);
    });
  }

  template <class Wanted>
  std::optional<size_t> best(const Wanted& wanted) const {
    std::optional<size_t> best;
    for (size_t i = 0; i < result_.considered.size(); ++i)
      if (wanted(result_.considered[i]) && (!best || is_better(i, *best))) best = i;
    return best;
  }

  bool is_better(size_t i, size_t than) const {
    const Rung &a = result_.considered[i], &b = result_.considered[than];
    if (std::abs(a.relative_time - b.relative_time) > kSameTime)
      return a.relative_time < b.relative_time;
    return a.names.size() < b.names.size();
  }

  void measure(Rung& rung) const {
    rung.memory = predicted_memory(rung.setup, options_.limit);
    rung.fits = rung.memory.peak_reserved <= options_.limit;
  }

  void add(Rung rung) {
    measure(rung);
    rung.relative_time = predicted_seconds(rung.setup.rehearsal) / seconds_;
    result_.considered.push_back(std::move(rung));
  }

  // Whether it was offered.
  bool apply(const Remedy& remedy, Rung& rung) {
    Offer offer = remedy.offer(rung.setup, options_.limit);
    if (!offer.setup) {
      if (rung.names.empty()) note_not_offered(remedy, offer);
      return false;
    }
    rung.setup = std::move(*offer.setup);
    rung.names.push_back(remedy.name());
    rung.remedies.push_back(std::move(offer.text));
    rung.changes_numbers |= remedy.changes_numbers();
    rung.is_proposed_only |= remedy.is_proposed_only();
    rung.changes_model |= remedy.changes_model();
    return true;
  }

  void note_not_offered(const Remedy& remedy, const Offer& offer) {
    auto known = [&](const NotOffered& other) { return other.name == remedy.name(); };
    if (std::ranges::none_of(result_.not_offered, known))
      result_.not_offered.push_back({remedy.name(), offer.text});
  }

  // What was planned for the training as it was, is none of one that was changed.
  void try_alone(const Remedy& remedy) {
    const bool plans_again = was_planned() && !remedy.plans_saved();
    Rung rung{.setup = plans_again ? unplanned() : result_.considered.front().setup};
    if (!apply(remedy, rung)) return;
    if (plans_again) measure(rung);
    if (plans_again && !rung.fits)
      try_together({&remedy}, /*least=*/1, /*with_unasked=*/false);
    else
      add(std::move(rung));
  }

  TrainingSetup unplanned() const {
    TrainingSetup setup = result_.considered.front().setup;
    if (was_planned()) setup.rehearsal.trainer.recompute = free_recomputation();
    return setup;
  }

  // Each that is not enough alone, beside all that may be chosen unasked. What is still too much is
  // of interest only where nothing else fits, and then how much it is at least, which takes long.
  void try_proposed() {
    Remedies too_much;
    for (const auto& remedy : remedies_) {
      if (!remedy->is_proposed_only()) continue;
      if (const Rung* alone = least_with(*remedy); alone == nullptr || alone->fits) continue;
      std::optional<Rung> rung = together({remedy.get()}, {.search_least = false});
      if (!rung || rung->names.size() < 2) continue;
      measure(*rung);
      if (rung->fits)
        add(std::move(*rung));
      else
        too_much.push_back(remedy.get());
    }
    if (one_fits({.same_model = true})) return;
    for (const Remedy* remedy : too_much) try_together({remedy}, /*least=*/2);
  }

  bool was_planned() const {
    return result_.considered.front().setup.rehearsal.trainer.recompute.fates != nullptr;
  }

  void try_together(const Remedies& proposed, size_t least, bool with_unasked = true) {
    std::optional<Rung> rung = together(proposed, {.with_unasked = with_unasked});
    if (rung && rung->names.size() >= least) add(std::move(*rung));
  }

  struct How {
    bool with_unasked = true, search_least = true;
  };
  // The training with all of these, and all that may be chosen unasked; nothing where one of these
  // is not offered beside the others.
  std::optional<Rung> together(const Remedies& proposed, const How& how) {
    Rung rung{.setup = unplanned()};
    if (std::ranges::any_of(remedies_, [](const auto& one) { return one->plans_saved(); }))
      rung.setup.will_plan = RecomputeMeans{.search_least = false};
    for (const auto& remedy : remedies_) {
      if (remedy->plans_saved()) continue;
      const bool is_wanted = std::ranges::count(proposed, remedy.get()) > 0;
      if (!is_wanted && (remedy->is_proposed_only() || !how.with_unasked)) continue;
      if (!apply(*remedy, rung) && is_wanted) return {};
    }
    if (rung.setup.will_plan) rung.setup.will_plan->search_least = how.search_least;
    for (const auto& remedy : remedies_)
      if (remedy->plans_saved()) apply(*remedy, rung);
    rung.setup.will_plan.reset();
    return rung;
  }

  // From the remedy on that needs least, each other one is taken that makes it less, until all is
  // little enough; then from those that were not taken.
  void try_several() {
    constexpr int kMostStarts = 2;  // such as those with parts, and those whose update is fused
    std::set<const Remedy*> taken;
    int starts = 0;
    for (const Remedy* first : by_bytes()) {
      if (taken.contains(first)) continue;
      if (++starts > kMostStarts) return;
      const Remedies several = grown_from(first);
      taken.insert(several.begin(), several.end());
      if (several.size() > 1) add(*together(several, {}));
      if (one_fits({.same_model = true})) return;
    }
  }

  Remedies grown_from(const Remedy* first) {
    Remedies several{first};
    auto bytes_of = [&](const Remedies& remedies) {
      std::optional<Rung> rung = together(remedies, {.search_least = false});
      if (rung) measure(*rung);
      return rung ? rung->memory.peak_reserved : std::numeric_limits<int64_t>::max();
    };
    int64_t least = bytes_of(several);
    for (const Remedy* remedy : by_bytes()) {
      if (least <= options_.limit) break;
      if (remedy == first) continue;
      several.push_back(remedy);
      const int64_t bytes = bytes_of(several);
      if (bytes < least)
        least = bytes;
      else
        several.pop_back();
    }
    return several;
  }

  static bool trains_same_model(const Remedy& remedy) {
    return remedy.is_proposed_only() && !remedy.changes_model();
  }

  // Those that are only proposed, by the bytes of what was considered of them.
  Remedies by_bytes() const {
    std::vector<std::pair<int64_t, const Remedy*>> bytes;
    for (const auto& remedy : remedies_)
      if (const Rung* rung = least_with(*remedy); rung != nullptr && trains_same_model(*remedy))
        bytes.emplace_back(rung->memory.peak_reserved, remedy.get());
    std::ranges::stable_sort(bytes, {}, [](const auto& one) { return one.first; });
    Remedies sorted;
    for (const auto& one : bytes) sorted.push_back(one.second);
    return sorted;
  }

  const Rung* least_with(const Remedy& remedy) const {
    const Rung* least = nullptr;
    for (const Rung& rung : result_.considered)
      if (std::ranges::count(rung.names, remedy.name()) > 0 &&
          (least == nullptr || rung.memory.peak_reserved < least->memory.peak_reserved))
        least = &rung;
    return least;
  }

  void leave_out_what_helps_nothing() {
    const std::vector<Rung> all = result_.considered;
    std::erase_if(result_.considered, [&](const Rung& rung) {
      return std::ranges::any_of(all, [&](const Rung& part) {
        return part.names.size() == 1 && rung.names.size() > 1 &&
               std::ranges::count(rung.names, part.names.front()) > 0 &&
               rung.memory.peak_reserved > part.memory.peak_reserved &&
               !(rung.fits && rung.relative_time < part.relative_time - kSameTime);
      });
    });
  }

  const std::vector<std::unique_ptr<Remedy>>& remedies_;
  LadderOptions options_;
  double seconds_;  // of what was asked for
  LadderResult result_;
};

}  // namespace

StepMemory predicted_memory(const TrainingSetup& setup, int64_t capacity) {
  if (setup.will_plan) return choose_recomputation(setup, capacity, *setup.will_plan).memory;
  auto program = [&](const auto& state_is_held) { rehearse(setup.rehearsal, state_is_held); };
  return plan_under(setup.planner, program, {.capacity = capacity}).predicted;
}

Ladder& Ladder::add(std::unique_ptr<Remedy> remedy) {
  remedies_.push_back(std::move(remedy));
  return *this;
}

LadderResult Ladder::climb(const TrainingSetup& wanted, const LadderOptions& options) const {
  return Climb(remedies_, wanted, options).climb();
}

std::string to_table(const LadderResult& result) {
  auto text_of = [](const Rung& rung) {
    return rung.remedies.empty() ? "as asked for"
                                 : fmt::format("{}", fmt::join(rung.remedies, ", "));
  };
  size_t width = 0;
  for (const Rung& rung : result.considered) width = std::max(width, text_of(rung).size());
  for (const NotOffered& remedy : result.not_offered) width = std::max(width, remedy.name.size());
  std::string text = fmt::format("  {:<{}} {:>10}  {:>5}  {:<7}  {}\n", "remedies", width, "peak",
                                 "time", "numbers", "verdict");
  for (size_t i = 0; i < result.considered.size(); ++i) {
    const Rung& rung = result.considered[i];
    const int64_t over = rung.memory.peak_reserved - result.limit;
    std::string verdict = i == result.chosen ? "chosen"
                          : rung.fits        ? "fits"
                                             : format_bytes(over) + " too much";
    text += fmt::format("  {:<{}} {:>10}  {:>5.2f}  {:<7}  {}\n", text_of(rung), width,
                        format_bytes(rung.memory.peak_reserved), rung.relative_time,
                        rung.changes_numbers ? "change" : "same", verdict);
  }
  for (const NotOffered& remedy : result.not_offered)
    text += fmt::format("  {:<{}} not offered: {}\n", remedy.name, width, remedy.why);
  return text;
}

}  // namespace brim
