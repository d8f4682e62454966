// Plans against segments of equal length, as `checkpoint_sequential` makes them of a chain; here
// they are cut on the tape, of any graph. For each share of keep-everything's memory: of all
// numbers of segments that fit, those with the least predicted time, in turns with a plan that
// holds no more than the smallest of them does. Or that no number of segments fits.
//
//   recompute_segments_bench --model resnet50 --batch 32 --shares 70,60,50,40
#include "brim/bench/case_options.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"

namespace {

using namespace brim;
using namespace brim::bench;

struct Options {
  CaseOptions measured;
  std::vector<int> shares{70, 60, 50, 40};
  size_t candidates = 2;
};

/// All ways to cut: numbers of segments that come to other lengths.
std::vector<Variant> all_cuts(const TrainingShape& shape) {
  const int64_t calls = recorded_calls(shape);
  std::vector<Variant> cuts;
  for (int64_t segments = 2, before = 0; segments <= calls; ++segments) {
    const int64_t length = ceil_div(calls, segments);
    if (std::exchange(before, length) != length)
      cuts.push_back(in_segments(shape, segments, calls));
  }
  return cuts;
}

/// The quickest by prediction, of those that fit.
std::vector<Variant> quickest(const std::vector<Variant>& cuts, int64_t limit, size_t count) {
  std::vector<Variant> fitting;
  for (const Variant& cut : cuts)
    if (cut.peak() <= limit) fitting.push_back(cut);
  std::ranges::stable_sort(fitting, {}, &Variant::seconds);
  fitting.resize(std::min(fitting.size(), count));
  return fitting;
}

int64_t least_peak(const std::vector<Variant>& variants) {
  return std::ranges::min_element(variants, {}, &Variant::peak)->peak();
}

class Comparison {
 public:
  explicit Comparison(const Options& options)
      : options_(options), off_(keep_everything(shape())), cuts_(all_cuts(shape())) {
    fmt::print("{}: {:.1f} MiB with all kept; {} numbers of segments, the least {}\n",
               shape().name(), in_mib(off_.peak()), cuts_.size(), share_of(least_peak(cuts_)));
  }

  void run(int share) {
    const int64_t limit = off_.peak() / 100 * share;
    std::vector<Variant> cuts = quickest(cuts_, limit, options_.candidates);
    std::vector<std::string> names;
    for (const Variant& cut : cuts) names.push_back(cut.name);
    if (!names.empty() && names == measured_) {
      fmt::print("{}%: the same numbers of segments as before\n", share);
      return;
    }
    measured_ = names;
    Variant plan = within("plan", shape(), cuts.empty() ? limit : least_peak(cuts));
    if (!plan.fits) {
      fmt::print("{}%: no plan fits; {} is the least that was found\n", share,
                 share_of(plan.peak()));
      return;
    }
    cuts.insert(cuts.begin(), std::move(plan));
    measure(share, cuts);
  }

 private:
  const TrainingShape& shape() const { return options_.measured.shape; }
  std::string share_of(int64_t bytes) const {
    return fmt::format("{:.1f}%",
                       100 * static_cast<double>(bytes) / static_cast<double>(off_.peak()));
  }

  /// The plan first.
  void measure(int share, const std::vector<Variant>& variants) {
    const bool is_alone = variants.size() == 1;
    TurnOptions turn_options = options_.measured.turns;
    if (is_alone) turn_options.rounds = 0;
    const std::vector<Turns> turns = take_turns(variants, turn_options);
    Json line = json_of(options_.measured);
    line["share"] = share;
    for (size_t i = 0; i < variants.size(); ++i) {
      const Variant& variant = variants[i];
      fmt::print("{:>3}%  {:<13}{:>10.1f} MiB{:>7}  predicted {:.3f} of off  of the plan {}\n",
                 share, variant.name, in_mib(variant.peak()), share_of(variant.peak()),
                 variant.seconds / off_.seconds, text_of(turns[i]));
      line["variants"].push_back(json_of(variant, turns[i]));
    }
    if (is_alone) fmt::print("{:>3}%  no number of segments fits\n", share);
    keep(options_.measured, line);
  }

  const Options& options_;
  Variant off_;
  std::vector<Variant> cuts_;
  std::vector<std::string> measured_;  // last
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("Plans against segments of equal length, in turns.",
                    "recompute_segments_bench");
  add_case_options(app, options.measured);
  app.add_option("--shares", options.shares, "of keep-everything's peak, in percent")
      .may_repeat(',')
      .check(apps::whole_number(1, 99))
      .shows_default();
  app.add_option("--candidates", options.candidates, "numbers of segments to measure for a share")
      .check(apps::whole_number(1))
      .shows_default();
  return apps::run_program(app, argc, argv, [&] {
    Comparison comparison(options);
    for (int share : options.shares) comparison.run(share);
  });
}
