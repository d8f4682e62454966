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
  double first = seconds_of_update(training, part);
  double second = seconds_of_update(training, 2 * part) - first;
  int64_t whole = images / part, rest = images % part;
  double last = rest > 0 ? seconds_of_update(training, part + rest) - first : 0;
  return first + static_cast<double>(whole - 1) * second + last;
}

}  // namespace brim
