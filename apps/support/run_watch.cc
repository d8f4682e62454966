#include "brim/apps/support/run_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "brim/apps/support/flag_values.h"
#include "brim/io/atomic_file.h"

namespace brim::apps {
namespace {

Json json_of(const RangeShares& shares) {
  return {{"lost", shares.lost},
          {"subnormal", shares.subnormal},
          {"near", shares.near},
          {"over", shares.over}};
}

Json event_of(const NumericsReport& report, const NumericsWatch& watch) {
  Json needs = Json::array(), skipped = Json::array();
  for (const NumericsRow& row : report.rows)
    if (row.needs_float32)
      needs.push_back({{"module", row.values->module},
                       {"op", row.values->op},
                       {"values", to_string(row.values->kind)},
                       {"shares", json_of(row.shares)}});
  for (const Skipped& one : watch.skipped())
    skipped.push_back({{"step", one.step + 1},
                       {"module", one.first_overflow_module},
                       {"op", one.op},
                       {"phase", one.phase == autograd::Phase::forward ? "forward" : "backward"},
                       {"scale", one.scale}});
  return {{"event", "numerics"},
          {"type", to_string(report.type)},
          {"updates", watch.steps()},
          {"activations", json_of(report.activations)},
          {"gradients", json_of(report.gradients)},
          {"loss_scale", report.loss_scale},
          {"scaled_gradients", json_of(report.scaled_gradients)},
          {"needs_float32", needs},
          {"skipped", skipped}};
}

}  // namespace

void add_watch_flags(App& app, TrainFlags& f) {
  app.add_option(
         "--watch-numerics",
         [&f](const std::string& page) {
           if (!page.empty() && !page.ends_with(".html"))
             raise<ValueError>("--watch-numerics", "expected FILE.html, got '{}'", page);
           f.watch_numerics = true;
           f.watch_page = page;
         },
         "look at the sizes of activations and gradients now and then, and say at the end what "
         "they lose in the run's 16-bit type, or in f32 would lose in float16; with FILE.html, as "
         "a page with histograms too")
      .type_name("[FILE.html]")
      .value_may_lack();
  app.add_option("--watch-every", f.watch_every, "with --watch-numerics: each so many updates")
      .shows_default()
      .check(whole_number(1));
}

void check_watch_page(const std::string& path) { io::check_writable(path, "numerics"); }

RunWatch::RunWatch(const TrainFlags& flags, Events& events) : flags_(flags), events_(events) {
  if (flags.watch_numerics) watch_.emplace(NumericsWatchOptions{.every = flags.watch_every});
}

std::string RunWatch::finish() const {
  if (!watch_) return "";
  const Dtype type = is_low_precision(flags_.precision()) ? flags_.precision() : Dtype::float16;
  const NumericsReport report = numerics_report(*watch_, type);
  events_.write(event_of(report, *watch_));
  if (!flags_.watch_page.empty())
    io::write_file(
        flags_.watch_page,
        numerics_page(report, *watch_,
                      {fmt::format("{}, {}x{}, batch {}, in {}", flags_.model, flags_.size,
                                   flags_.size, flags_.batch, to_string(flags_.precision()))}),
        "numerics");
  return fmt::format("numbers:\n  {}\n{}", fmt::join(summary_of(report, *watch_), "\n  "),
                     table_of(report));
}

std::string RunWatch::finish_after_error() const {
  try {
    return finish();
  } catch (const Error& second) {
    return second.what();
  }
}

}  // namespace brim::apps
