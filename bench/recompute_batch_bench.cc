// Larger batches in the same bytes: keep-everything's peak at one batch is the budget in which
// multiples of that batch, and the largest batch that fits, are planned. Seconds for each image,
// measured in turns, one step of each a round, against the batch that keeps everything.
//
//   recompute_batch_bench --model resnet50 --batch 16 --multiples 2,3,4 --largest
#include "brim/bench/case_options.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"

namespace {

using namespace brim;
using namespace brim::bench;

struct Options {
  CaseOptions measured;
  std::vector<int> multiples{2, 3, 4};
  bool largest = false;
};

double multiple_of(const Variant& variant, const Variant& kept) {
  return static_cast<double>(variant.shape.batch) / static_cast<double>(kept.shape.batch);
}

Variant planned(const Variant& kept, int64_t batch) {
  const double multiple = static_cast<double>(batch) / static_cast<double>(kept.shape.batch);
  return within(fmt::format("{}x", multiple), kept.shape.with_batch(batch), kept.peak());
}

/// To a quarter of the batch.
Variant largest_planned(const Variant& kept) {
  const int64_t unit = std::max<int64_t>(kept.shape.batch / 4, 1);
  auto fits = [&](int64_t units) {
    const RehearsalOptions rehearsal = rehearsal_of(kept.shape.with_batch(units * unit));
    const bool yes = choose_recomputation({rehearsal, "arena"}, kept.peak()).fits;
    fmt::print(stderr, "  batch {} {}\n", units * unit, yes ? "fits" : "does not fit");
    return yes;
  };
  int64_t low = kept.shape.batch / unit, high = 2 * low;
  while (fits(high)) high = 2 * (low = high);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return planned(kept, low * unit);
}

/// The batch that keeps everything first. What does not fit is said, and left out.
std::vector<Variant> variants_of(const Options& options) {
  const TrainingShape& shape = options.measured.shape;
  std::vector<Variant> variants{keep_everything(shape)};
  for (int multiple : options.multiples) {
    Variant variant = planned(variants[0], multiple * shape.batch);
    if (variant.fits)
      variants.push_back(std::move(variant));
    else
      fmt::print("batch {} does not fit {:.1f} MiB: {:.1f} MiB is the least that was found\n",
                 variant.shape.batch, in_mib(variants[0].peak()), in_mib(variant.peak()));
  }
  if (options.largest) variants.push_back(largest_planned(variants[0]));
  return variants;
}

/// Ratios of steps as ratios of images.
Turns per_image(Turns turns, double multiple) {
  for (double& seconds : turns.seconds) seconds /= multiple;
  return turns;
}

void print_row(const Variant& variant, const Variant& kept, const Turns& per_image) {
  fmt::print("{:<8}{:>7}{:>10.1f}{:>9}{:>11.3f}  {}\n", variant.name, variant.shape.batch,
             in_mib(variant.peak()), variant.dropped.value_or(0),
             variant.seconds / kept.seconds / multiple_of(variant, kept), text_of(per_image));
}

void report(const Options& options, const std::vector<Variant>& variants,
            const std::vector<Turns>& turns) {
  const Variant& kept = variants[0];
  std::vector<Turns> of_image;
  for (size_t i = 0; i < variants.size(); ++i)
    of_image.push_back(per_image(turns[i], multiple_of(variants[i], kept)));
  const Json line = report_rows(
      options.measured,
      fmt::format("; time for each image of batch {}'s with all kept", kept.shape.batch),
      fmt::format("{:<8}{:>7}{:>10}{:>9}{:>11}  {}", "", "batch", "peak MiB", "dropped",
                  "predicted", "measured"),
      variants, of_image, print_row);
  keep(options.measured, line);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("Multiples of a batch in the bytes that it takes kept.",
                    "recompute_batch_bench");
  add_case_options(app, options.measured);
  app.add_option("--multiples", options.multiples)
      .may_repeat(',')
      .check(apps::whole_number(2, 64))
      .shows_default();
  app.add_flag("--largest", options.largest,
               "also the largest batch that fits, to a quarter of --batch");
  return run_case(app, argc, argv, options, variants_of, report);
}
