#include "brim/train/training_loss.h"

#include "brim/autograd/random_context.h"
#include "brim/data/loader.h"
#include "brim/ops/cross_entropy.h"

namespace brim {
namespace {

Tensor mixed_loss(nn::Module& model, data::DeviceBatch batch, const TrainerOptions& options,
                  Reduction reduction) {
  const Shape shape = batch.images.shape();
  const Mix mix = draw_mix(options.mix, static_cast<int>(shape[1]), static_cast<int>(shape[2]),
                           autograd::next_random_address("mix").key);
  mix_images(batch.images, mix);
  Tensor logits = model(prepare_input(std::move(batch.images), options.input));
  // Halves take targets of float32.
  const Dtype dtype = logits.dtype() == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  Tensor targets = mix_labels(batch.labels, logits.size(-1), mix,
                              {.label_smoothing = options.label_smoothing, .dtype = dtype});
  batch.labels = {};
  return cross_entropy(std::move(logits), std::move(targets),
                       {.weight = options.class_weights, .reduction = reduction});
}

}  // namespace

Tensor training_loss(nn::Module& model, data::DeviceBatch batch, const TrainerOptions& options,
                     Reduction reduction) {
  if (options.mix.any()) return mixed_loss(model, std::move(batch), options, reduction);
  Tensor logits = model(prepare_input(std::move(batch.images), options.input));
  return cross_entropy(std::move(logits), std::move(batch.labels),
                       {.weight = options.class_weights,
                        .label_smoothing = options.label_smoothing,
                        .ignore_index = data::kIgnoredLabel,
                        .reduction = reduction});
}

double loss_weight(std::span<const int64_t> labels, std::span<const double> class_weights,
                   const TrainerOptions& options) {
  if (options.mix.any()) return static_cast<double>(labels.size());
  double sum = 0;
  for (int64_t label : labels) {
    if (label == data::kIgnoredLabel) continue;
    if (class_weights.empty())
      sum += 1;
    else if (label >= 0 && label < static_cast<int64_t>(class_weights.size()))
      sum += class_weights[static_cast<size_t>(label)];
  }
  return sum;
}

}  // namespace brim
