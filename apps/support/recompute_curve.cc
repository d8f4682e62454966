#include "brim/apps/support/recompute_curve.h"

#include <fmt/format.h>

#include "brim/base/parallel.h"
#include "brim/io/atomic_file.h"
#include "brim/memory/report/recompute_page.h"
#include "brim/train/recompute_curve.h"

namespace brim::apps {
namespace {

constexpr const char* kTag = "plan";  // of errors

std::vector<memory::DrawnWay> drawn(const std::vector<CurvePoint>& points, double seconds) {
  std::vector<memory::DrawnWay> ways;
  for (const CurvePoint& point : points)
    ways.push_back({.name = point.name,
                    .bytes = point.memory.peak_reserved,
                    .extra_time = point.extra_seconds / seconds,
                    .bound = point.bound_seconds / seconds,
                    .rebuilt = point.rebuilt});
  return ways;
}

}  // namespace

void check_curve_file(const std::string& path) {
  expect<ValueError>(path.ends_with(".html") || path.ends_with(".svg"), "flags",
                     "--recompute-curve writes .html or .svg, got '{}'", path);
  io::check_writable(path, kTag);
}

void draw_recompute_curve(const std::string& path, const TrainFlags& flags, const TrainData& data,
                          const std::optional<RecomputeChoice>& chosen) {
  const TrainingSetup setup{rehearsal_of(flags, data, flags.batch), flags.planner};
  CurveOptions options{.beside = {{"free", free_recomputation()}, best_segments(setup.rehearsal)}};
  if (chosen && flags.budget > 0) options.beside.push_back({"for the budget", chosen->recompute});
  const RecomputeCurve curve = recompute_curve(setup, options);
  const memory::RecomputePage page{
      .title = fmt::format("Bytes against time: {}", flags.model),
      .subtitle = {fmt::format("{}x{}, batch {}, {}, {} planner, {} threads", flags.size,
                               flags.size, flags.batch, flags.optimizer.name, flags.planner,
                               num_threads())},
      .plans = drawn(curve.front, curve.seconds),
      .beside = drawn(curve.beside, curve.seconds),
      .budget = flags.budget};
  io::write_file(
      path, path.ends_with(".svg") ? memory::recompute_picture(page) : memory::recompute_page(page),
      kTag);
}

}  // namespace brim::apps
