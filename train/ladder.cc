#include "brim/train/ladder.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/train/predicted_time.h"
#include "brim/train/training_plan.h"

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
    for (const auto& remedy : remedies_) try_on(result_.considered.front(), *remedy);
    if (!one_fits(/*unasked=*/true)) {
      const Rung unasked = with_unasked(result_.considered.front());
      if (unasked.names.size() > 1) add(unasked);
      if (!unasked.names.empty()) try_proposed(unasked);
    }
    result_.chosen = best([&](const Rung& rung) {
      return rung.fits && (options_.may_choose_all || !rung.is_proposed_only);
    });
    return std::move(result_);
  }

  template <class Wanted>
  std::optional<size_t> best(const Wanted& wanted) const {
    std::optional<size_t> best;
    for (size_t i = 0; i < result_.considered.size(); ++i)
      if (wanted(result_.considered[i]) && (!best || is_better(i, *best))) best = i;
    return best;
  }

 private:
  bool is_better(size_t i, size_t than) const {
    const Rung &a = result_.considered[i], &b = result_.considered[than];
    if (std::abs(a.relative_time - b.relative_time) > kSameTime)
      return a.relative_time < b.relative_time;
    return a.names.size() < b.names.size();
  }

  bool one_fits(bool unasked) const {
    return std::ranges::any_of(result_.considered, [&](const Rung& rung) {
      return rung.fits && !(unasked && rung.is_proposed_only);
    });
  }

  void add(Rung rung) {
    rung.memory = predicted_memory(rung.setup, options_.limit);
    rung.relative_time = predicted_seconds(rung.setup.rehearsal) / seconds_;
    rung.fits = rung.memory.peak_reserved <= options_.limit;
    result_.considered.push_back(std::move(rung));
  }

  std::optional<Rung> with(Rung rung, const Remedy& remedy) {
    Offer offer = remedy.offer(rung.setup, options_.limit);
    if (!offer.setup) {
      if (rung.names.empty()) note_not_offered(remedy, offer);
      return {};
    }
    rung.setup = std::move(*offer.setup);
    rung.names.push_back(remedy.name());
    rung.remedies.push_back(std::move(offer.text));
    rung.changes_numbers |= remedy.changes_numbers();
    rung.is_proposed_only |= remedy.is_proposed_only();
    rung.changes_model |= remedy.changes_model();
    return rung;
  }

  void note_not_offered(const Remedy& remedy, const Offer& offer) {
    auto known = [&](const NotOffered& other) { return other.name == remedy.name(); };
    if (std::ranges::none_of(result_.not_offered, known))
      result_.not_offered.push_back({remedy.name(), offer.text});
  }

  void try_on(Rung rung, const Remedy& remedy) {
    if (std::optional<Rung> changed = with(std::move(rung), remedy)) add(std::move(*changed));
  }

  void try_proposed(const Rung& unasked) {
    for (const auto& remedy : remedies_)
      if (remedy->is_proposed_only()) try_on(unasked, *remedy);
    if (one_fits(/*unasked=*/false)) return;
    // What was planned for the training as it is, is not the least of one that was changed.
    for (const auto& remedy : remedies_)
      if (remedy->is_proposed_only())
        if (std::optional<Rung> changed = with(result_.considered.front(), *remedy))
          if (Rung rung = with_unasked(*changed); rung.names.size() > 1) add(std::move(rung));
  }

  Rung with_unasked(Rung rung) {
    for (const auto& remedy : remedies_)
      if (!remedy->is_proposed_only())
        if (std::optional<Rung> changed = with(rung, *remedy)) rung = std::move(*changed);
    return rung;
  }

  const std::vector<std::unique_ptr<Remedy>>& remedies_;
  LadderOptions options_;
  double seconds_;  // of what was asked for
  LadderResult result_;
};

}  // namespace

StepMemory predicted_memory(const TrainingSetup& setup, int64_t capacity) {
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
