#include "brim/apps/support/run_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "brim/base/parallel.h"
#include "brim/io/atomic_file.h"

namespace brim::apps {
namespace {

Json json_of(const LaunchCost& cost) {
  return {{"launches", cost.launches},
          {"seconds", cost.seconds},
          {"bytes_moved", cost.bytes_moved},
          {"flops", cost.flops},
          {"least_seconds", cost.least_seconds > 0 ? Json(cost.least_seconds) : Json()}};
}

Json event_of(const ProfileReport& report) {
  Json ops = Json::array();
  for (const OpCost& op : report.ops) {
    ops.push_back({{"module", op.module}, {"op", op.op}, {"phase", memory::to_string(op.phase)}});
    ops.back().update(json_of(op.cost));
  }
  return {{"event", "profile"},
          {"updates", report.steps},
          {"seconds", report.clocked},
          {"outside_seconds", report.outside},
          {"launched", json_of(report.launched)},
          {"ops", ops}};
}

std::string about(const TrainFlags& flags) {
  const int threads = num_threads();
  const std::string where = flags.device.is_cuda()
                                ? to_string(flags.device)
                                : fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
  return fmt::format("{}, {}x{}, batch {}, in {}, {}", flags.model, flags.size, flags.size,
                     flags.batch, to_string(flags.precision()), where);
}

}  // namespace

void check_profile_flags(const TrainFlags& flags) {
  if (flags.profile.empty()) return;
  expect<ValueError>(flags.profile.ends_with(".html"), "flags", "--profile writes .html, got '{}'",
                     flags.profile);
  expect<ValueError>(!flags.replay, "flags",
                     "--profile times launches, and an update from a graph has none: leave out "
                     "--replay");
  io::check_writable(flags.profile, "profile");
}

std::optional<MachinePeak> peak_for_profile(const TrainFlags& flags) {
  if (flags.profile.empty() || !flags.device.is_cpu()) return {};
  return measured_peak();
}

RunProfile::RunProfile(const TrainFlags& flags, const std::optional<MachinePeak>& peak,
                       Events& events)
    : flags_(flags), events_(events), peak_(peak) {
  if (!flags.profile.empty()) profile_.emplace(ProfileOptions{.device = flags.device});
}

void RunProfile::step() {
  if (profile_ && !written_ && profile_->is_done()) write_page();
}

std::string RunProfile::finish() {
  if (!profile_) return "";
  if (!written_) write_page();
  const ProfileReport seen = report();
  events_.write(event_of(seen));
  return fmt::format("profile:\n  {}\n{}", fmt::join(summary_of(seen), "\n  "), table_of(seen));
}

void RunProfile::write_page() {
  io::write_file(flags_.profile, profile_page(report(), {about(flags_)}), "profile");
  written_ = true;
}

}  // namespace brim::apps
