// Top-1 and top-5 accuracy and mean cross entropy of a model over a dataset. Give it a loader of
// its own: it starts that loader's first epoch, which ends one under way. Turn off random
// augmentation and `drop_last`, and prefer `BadImage::ignore` to `replace`, so that each image that
// can be read counts once. The loss has no label smoothing. For other metrics call
// `evaluate_batch`, which gives the logits.
#pragma once

#include <functional>

#include "brim/data/device_batch.h"
#include "brim/data/loader.h"
#include "brim/nn/module.h"
#include "brim/train/input.h"

namespace brim {

struct Evaluation {
  int64_t images = 0;   ///< that could be read
  double loss = 0;      ///< mean cross entropy
  double accuracy = 0;  ///< share of images whose class has the largest logit
  double top5 = 0;      ///< or one of the five largest; all of them with five classes or fewer
};

/// Called after each batch with the images done so far and in all.
using EvaluationProgress = std::function<void(int64_t done, int64_t all)>;

/// What evaluation asks of one batch on the device.
struct BatchEvaluation {
  Tensor logits;  ///< [N,C]
  Tensor loss;    ///< a scalar, summed over the images
};
/// In the mode that the model is in, without gradients.
BatchEvaluation evaluate_batch(nn::Module& model, data::DeviceBatch batch,
                               const InputOptions& input);

/// Runs the model in eval mode, without gradients, over one epoch of `loader`, with `at_once`
/// images on the device (0: a batch of the loader); afterwards each module is in the mode that it
/// was in. Images with `data::kIgnoredLabel` do not count. Throws `ValueError` where a logit is
/// NaN, `FileError` where no image could be read.
Evaluation evaluate(nn::Module& model, data::Loader& loader, const InputOptions& input,
                    const EvaluationProgress& on_batch = nullptr, int64_t at_once = 0);

/// Images whose label is among the k largest of their logits ([N,C]); of equal ones the first
/// counts. Labels that are no class, `data::kIgnoredLabel` for one, are never among them. Throws
/// `ShapeError` unless there is a row for each label, `ValueError` for a NaN or a k below 1.
int64_t count_correct(const Tensor& logits, std::span<const int64_t> labels, int64_t k = 1);

}  // namespace brim
