#include "brim/examples/support/train_speed.h"

#include <optional>

#include "brim/examples/support/train_plan.h"
#include "brim/train/upload.h"

namespace brim::examples {
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
            flags.device, std::make_unique<memory::HostSource>(flags.limit()),
            predict_memory(flags, data, batch).planner(flags))),
        scope_(account_),
        model_(nn::make_model(flags.model, model_options(flags, data, flags.device))),
        updating_(make_updating(flags.optimizer, *model_)),
        step_(*model_, *updating_.optimizer, {.clip = options_.clip, .ema = updating_.ema.get()}) {}

  int64_t batch() const { return batch_; }
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

}  // namespace

std::vector<SpeedPoint> measure_batches(const TrainFlags& asked, const TrainData& data,
                                        int64_t least, int64_t most) {
  TrainFlags flags = asked;
  flags.effective_batch = 0;  // each part of an update is like the first
  std::optional<TimedTraining> training;
  return measure_speed({.batches = candidate_batches(
                            {.least = least, .most = most, .multiple = flags.batch_multiple}),
                        .step = [&](int64_t batch) {
                          if (!training || training->batch() != batch) {
                            training.reset();  // its bytes first
                            training.emplace(flags, data, batch);
                          }
                          training->run();
                        }});
}

}  // namespace brim::examples
