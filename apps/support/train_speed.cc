#include "brim/apps/support/train_speed.h"

#include <algorithm>

#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/train_plan.h"
#include "brim/train/upload.h"

namespace brim::apps {
namespace {

/// A training with one batch of random pixels, which it trains on over and over.
class TimedTraining {
 public:
  TimedTraining(const TrainFlags& flags, const TrainData& data, int64_t batch)
      : batch_(batch),
        options_(trainer_options(flags, data)),
        images_(
            data::make_synthetic({.count = batch, .size = flags.size, .classes = data.classes})),
        account_(std::make_shared<memory::Account>(
            flags.device, source_for(flags), predict_memory(flags, data, batch).planner(flags))),
        scope_(account_),
        model_(nn::make_model(flags.model, model_options(flags, data, flags.device))),
        updating_(make_updating(flags.optimizer, *model_)),
        step_(*model_, *updating_.optimizer, step_options(options_, updating_.ema.get())) {}

  /// One micro-step and the update; the rate is 0, so that it can be done as often as one likes.
  void run() {
    const HostBatch batch{images_.pixels, images_.labels, images_.size};
    step_.run(0, [&] { return training_loss(*model_, upload(batch, options_.input), options_); },
              {.samples = batch_});
  }

 private:
  int64_t batch_;
  TrainerOptions options_;
  data::SyntheticBatch images_;
  std::shared_ptr<memory::Account> account_;
  memory::AccountScope scope_;
  std::unique_ptr<nn::Module> model_;
  Updating updating_;
  TrainStep step_;
};

bool fits(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  try {
    return predict_memory(flags, data, batch).predicted.peak_reserved <= flags.limit();
  } catch (const ValueError&) {
    return false;  // batch norm wants two values per channel
  }
}

}  // namespace

std::vector<SpeedPoint> measure_batches(const TrainFlags& asked, const TrainData& data,
                                        int64_t least, int64_t most) {
  TrainFlags flags = asked;
  flags.effective_batch = 0;  // each part of an update is like the first, or nearly
  std::vector<SpeedPoint> curve;
  double best = 0;
  int flat = 0;  // sizes in a row that brought next to nothing
  for (int64_t batch :
       candidate_batches({.least = least, .most = most, .multiple = flags.batch_multiple})) {
    // The scratch of a smaller batch may be larger, and the last part of an update too small.
    if (!fits(asked, data, batch)) continue;
    TimedTraining training(flags, data, batch);
    curve.push_back(
        measure_speed({.batches = {batch}, .step = [&](int64_t) { training.run(); }}).front());
    flat = curve.back().images_per_second > 1.05 * best ? 0 : flat + 1;
    best = std::max(best, curve.back().images_per_second);
    if (flat == 3) break;
  }
  return curve;
}

}  // namespace brim::apps
