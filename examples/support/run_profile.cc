#include "brim/examples/support/run_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "brim/base/parallel.h"
#include "brim/io/atomic_file.h"

namespace brim::examples {
namespace {

Json json_of(const LaunchCost& cost) {
  return {{"launches", cost.launches},
          {"seconds", cost.seconds},
          {"bytes_moved", cost.bytes_moved},
          {"flops", cost.flops}};
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
  expect<ValueError>(!flags.cuda_graph, "flags",
                     "--profile times launches, and an update from a graph has none: leave out "
                     "--cuda-graph");
  io::check_writable(flags.profile, "profile");
}

RunProfile::RunProfile(const TrainFlags& flags, Events& events) : flags_(flags), events_(events) {
  if (!flags.profile.empty()) profile_.emplace(ProfileOptions{.device = flags.device});
}

void RunProfile::step() {
  if (profile_ && !written_ && profile_->is_done()) write_page();
}

std::string RunProfile::finish() {
  if (!profile_) return "";
  if (!written_) write_page();
  const ProfileReport report = profile_report(*profile_);
  events_.write(event_of(report));
  return fmt::format("profile:\n  {}\n{}", fmt::join(summary_of(report), "\n  "), table_of(report));
}

void RunProfile::write_page() {
  io::write_file(flags_.profile, profile_page(profile_report(*profile_), {about(flags_)}),
                 "profile");
  written_ = true;
}

}  // namespace brim::examples
