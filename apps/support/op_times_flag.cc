#include "brim/apps/support/op_times_flag.h"

#include <filesystem>

#include "brim/apps/support/flag_values.h"
#include "brim/train/calibration.h"

namespace brim::apps {

void add_op_times_flag(App& app, TrainFlags& flags) {
  app.add_option("--op-times", flags.op_times_text,
                 "what predicted times come from: calibrated, this machine's speed, measured once "
                 "and kept in $BRIM_CACHE_DIR, $XDG_CACHE_HOME/brim or ~/.cache/brim; nominal, "
                 "500 GFLOP/s and 73 GB/s on every machine; measured, each op of this very model "
                 "timed now. Copies to the host are nominal in each case")
      .type_name("SOURCE")
      .check(one_of({"calibrated", "nominal", "measured"}))
      .shows_default();
}

namespace {

// Above it rates may be too low by as much as matters.
constexpr double kBusy = 0.25;

std::string text_of(const DeviceSpeed& speed) {
  return fmt::format("{:.0f} GFLOP/s, {:.1f} GB/s", speed.flops_per_second / 1e9,
                     speed.bytes_per_second / 1e9);
}

}  // namespace

namespace {

void take_times_of(const Card& card, TrainFlags& flags) {
  expect<ValueError>(flags.op_times_text != "measured", "flags",
                     "--op-times measured times the processor's ops, and not those of {}",
                     flags.device_name);
  flags.op_times.speed = speed_of(card, flags.precision());
  flags.speed_text = fmt::format("peak rates of {}, {}", card.name, text_of(flags.op_times.speed));
}

}  // namespace

void set_op_times(TrainFlags& flags) {
  if (flags.gpu)
    return take_times_of(flags.gpu->card != nullptr ? *flags.gpu->card : typical_card(), flags);
  flags.speed_text = "nominal, " + text_of(flags.op_times.speed);
  if (flags.op_times_text == "nominal") return;
  const MeasuredSpeed calibrated = calibrated_speed(flags.device);
  flags.op_times.speed = calibrated.speed;
  flags.speed_text =
      fmt::format("this machine's, {}, measured in {} rounds within {:.0f}%",
                  text_of(calibrated.speed), calibrated.rounds, 100 * calibrated.spread);
  if (calibrated.spread > kBusy) {
    flags.speed_text += "; it was busy then";
    const std::string path = calibration_file(flags.device, cache_folder());
    if (std::filesystem::exists(path))
      flags.speed_text += fmt::format(": remove {} to measure again", path);
  }
  if (flags.op_times_text == "measured")
    flags.op_times.measured = std::make_shared<MeasuredOps>(
        TimingOptions{.device = flags.device, .capacity = flags.limit()});
}

void say_op_times(const TrainFlags& flags) {
  fmt::print("predicted times: {}\n", flags.speed_text);
  if (flags.op_times.measured == nullptr) return;
  const MeasuredOps& ops = *flags.op_times.measured;
  fmt::print("timed {} different ops of {} for its predictions\n", ops.timed(), flags.model);
  for (const std::string& why : ops.left_out())
    fmt::print("  one could not be timed, its time is estimated: {}\n", why);
}

}  // namespace brim::apps
