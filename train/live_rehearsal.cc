#include "brim/train/live_rehearsal.h"

#include <set>

namespace brim {
namespace {

// Those of the model that the optimizer updates: it may have been given a part of them.
std::vector<nn::NamedTensor> updated(const optim::Optimizer& optimizer, const nn::Module& model) {
  std::set<std::string> names;
  for (const nn::NamedTensor& parameter : optimizer.parameters()) names.insert(parameter.name);
  std::vector<nn::NamedTensor> parameters = model.named_parameters();
  std::erase_if(parameters, [&](const nn::NamedTensor& p) { return !names.contains(p.name); });
  return parameters;
}

Updating like(const optim::Optimizer& optimizer, const optim::Ema* ema, nn::Module& model) {
  Updating updating{optimizer.like(updated(optimizer, model)), nullptr};
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
