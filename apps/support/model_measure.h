// What a model takes and gives, for a comparison before and after it was made smaller: predicted
// bytes, measured speed and accuracy. In a program of your own ask for each where it is made:
// nn/summary.h, train/step_memory.h, train/evaluate.h.
#pragma once

#include <optional>

#include "brim/apps/support/events.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

struct ModelMeasure {
  int64_t parameters = 0;
  double flops = 0;                  ///< of a forward pass of one image
  int64_t train_peak_bytes = 0;      ///< reserved, of training at the batch of the flags
  int64_t infer_peak_bytes = 0;      ///< of a forward pass without it
  int64_t infer_measured_bytes = 0;  ///< of those that were timed
  double images_per_second = 0;      ///< of such passes
  double train_images_per_second = 0;
  std::optional<double> accuracy;  ///< nothing where the data has no images to validate
};

/// Predicted peak of a training of the flags, and of forward passes, on `model`'s shapes.
int64_t train_peak_bytes(const TrainFlags& flags, const TrainData& data);
int64_t infer_peak_bytes(const TrainFlags& flags, const TrainData& data);
/// Top-1 over the images to validate; `data` has its loaders. Nothing where it has no such images.
std::optional<double> accuracy_of(const TrainFlags& flags, TrainData& data, nn::Module& model);

/// `model` has the shapes of the flags. Takes a few seconds of steps, and an evaluation.
ModelMeasure measure_model(const TrainFlags& flags, TrainData& data, nn::Module& model);

Json to_json(const ModelMeasure& measure);
/// Both side by side, for people.
std::string comparison(const ModelMeasure& before, const ModelMeasure& after);

}  // namespace brim::apps
