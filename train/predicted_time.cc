#include "brim/train/predicted_time.h"

#include "brim/train/parts.h"
#include "brim/train/step_memory.h"

namespace brim {
namespace {

double seconds_of_update(const RehearsalOptions& whole, int64_t images) {
  const RehearsalOptions training = whole.one_update(images);
  OpRuns observer = training.op_times.observer();
  measure_on_meta(memory::planner_named("direct"), [&](const auto& state_is_held) {
    rehearse(training, [&] {
      observer.clear();  // initial values are not the update's
      state_is_held();
    });
  });
  const SeenRuns seen = observer.take();
  training.op_times.learn(seen);
  double seconds = static_cast<double>(count_parts(images, training.batch)) *
                   training.trainer.recompute.wait_seconds;
  for (const OpRun& run : seen.runs) seconds += training.op_times.seconds(run);
  return seconds;
}

}  // namespace

double predicted_seconds(const RehearsalOptions& training) {
  const int64_t part = training.batch, images = training.update_images();
  if (count_parts(images, part) <= 2) return seconds_of_update(training, images);
  // Not from one part alone: what that holds is not as in several (MicroStepOptions::factors).
  const double two = seconds_of_update(training, 2 * part);
  const double next = seconds_of_update(training, 3 * part) - two;
  const int64_t whole = images / part, rest = images % part;
  const double last = rest > 0 ? seconds_of_update(training, 2 * part + rest) - two : 0;
  return two + static_cast<double>(whole - 2) * next + last;
}

}  // namespace brim
