#include "brim/examples/support/op_times_flag.h"

#include <CLI/CLI.hpp>

#include "brim/train/calibration.h"

namespace brim::examples {

void add_op_times_flag(CLI::App& app, TrainFlags& flags) {
  app.add_option("--op-times", flags.op_times_text,
                 "what predicted times come from: calibrated, this machine's speed, measured once "
                 "and kept in $BRIM_CACHE_DIR or ~/.cache/brim; nominal, the same on every "
                 "machine; measured, each op of this very model timed now")
      ->check(CLI::IsMember({"calibrated", "nominal", "measured"}))
      ->capture_default_str();
}

void set_op_times(TrainFlags& flags) {
  if (flags.op_times_text == "nominal") return;
  flags.op_times.speed = calibrated_speed(flags.device);
  if (flags.op_times_text == "measured")
    flags.op_times.measured = std::make_shared<MeasuredOps>(
        TimingOptions{.device = flags.device, .capacity = flags.limit()});
}

void say_op_times(const TrainFlags& flags) {
  if (flags.op_times.measured == nullptr) return;
  const MeasuredOps& ops = *flags.op_times.measured;
  fmt::print("timed {} different ops of {} for its predictions\n", ops.timed(), flags.model);
  for (const std::string& why : ops.left_out())
    fmt::print("  one could not be timed, its time is estimated: {}\n", why);
}

}  // namespace brim::examples
