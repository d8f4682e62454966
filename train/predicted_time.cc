#include "brim/train/predicted_time.h"

#include <algorithm>

#include "brim/train/parts.h"
#include "brim/train/training_plan.h"

namespace brim {
namespace {

// A training of one update of so many images.
double seconds_of_update(RehearsalOptions training, int64_t images, const DeviceSpeed& speed) {
  training.trainer.steps = training.updates = 1;
  training.effective_batch = images;
  training.last_update = training.evaluated = 0;
  memory::Trace trace =
      trace_on_meta([&](const auto& state_is_held) { rehearse(training, state_is_held); });
  double seconds = static_cast<double>(count_parts(images, training.batch)) *
                   training.trainer.recompute.wait_seconds;
  for (const memory::TraceOp& op : trace.ops)
    seconds += roofline_seconds(op.flops, op.bytes_moved, speed);
  return seconds;
}

}  // namespace

double roofline_seconds(double flops, int64_t bytes_moved, const DeviceSpeed& speed) {
  return std::max(flops / speed.flops_per_second,
                  static_cast<double>(bytes_moved) / speed.bytes_per_second) +
         speed.seconds_per_op;
}

double predicted_seconds(const RehearsalOptions& training, const DeviceSpeed& speed) {
  const int64_t part = training.batch, images = training.update_images();
  if (count_parts(images, part) <= 2) return seconds_of_update(training, images, speed);
  double first = seconds_of_update(training, part, speed);
  double second = seconds_of_update(training, 2 * part, speed) - first;
  int64_t whole = images / part, rest = images % part;
  double last = rest > 0 ? seconds_of_update(training, part + rest, speed) - first : 0;
  return first + static_cast<double>(whole - 1) * second + last;
}

}  // namespace brim
