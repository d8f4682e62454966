#include "brim/train/live_rehearsal.h"

namespace brim {
namespace {

Updating like(const optim::Optimizer& optimizer, const optim::Ema* ema, nn::Module& model) {
  Updating updating{optimizer.like(model.named_parameters()), nullptr};
  expect<ValueError>(updating.optimizer != nullptr, "rehearsal",
                     "the optimizer cannot be made again to be rehearsed: it has no like()");
  if (ema != nullptr) updating.ema = std::make_unique<optim::Ema>(model, ema->options());
  return updating;
}

}  // namespace

RehearsalOptions rehearsal_of(nn::Module& model, const optim::Optimizer& optimizer,
                              const TrainingData& data, const TrainerOptions& options,
                              int64_t batch) {
  EpochShape epoch = data.training.shape();
  RehearsalOptions rehearsal{
      .make_model =
          [&model] {
            // The model that there is, for as long as the scope lives.
            return std::shared_ptr<nn::Module>(std::make_shared<nn::MetaScope>(model), &model);
          },
      .make_updating = [&optimizer, ema = options.ema](
                           nn::Module& on_meta) { return like(optimizer, ema, on_meta); },
      .trainer = options,
      .size = epoch.size,
      .batch = batch,
      .updates = epoch.batches,
      .last_update = epoch.last_images,
      .effective_batch = epoch.images};
  if (data.validation != nullptr) {
    rehearsal.evaluated = data.validation->images();
    rehearsal.evaluation_batch = data.validation->options().batch;
  }
  return rehearsal;
}

}  // namespace brim
