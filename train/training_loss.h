// The loss that `Trainer` and a rehearsal of it differentiate: cross entropy of images as bytes,
// with smoothing, class weights and mixing. For a loop of your own write a loss of your own.
#pragma once

#include <span>

#include "brim/data/device_batch.h"
#include "brim/nn/module.h"
#include "brim/ops/reduction.h"
#include "brim/train/trainer_options.h"

namespace brim {

/// A scalar. With `options.mix` the batch's images are changed in place. The mean is over the
/// weights of the labels that are not ignored, as that of `cross_entropy`; with `options.mix` the
/// sum, in which an ignored label counts for nothing in either image of its pair, is divided by the
/// number of all images.
Tensor training_loss(nn::Module& model, data::DeviceBatch batch, const TrainerOptions& options,
                     Reduction reduction = Reduction::mean);

/// What the sum of the losses of images with these labels is divided by for their mean:
/// `Reduction::sum` of all parts of an update over this of all its labels is the mean over the
/// update, however it was cut. `class_weights` is empty where all weigh 1; a label beyond them
/// counts nothing here, `training_loss` names it.
double loss_weight(std::span<const int64_t> labels, std::span<const double> class_weights,
                   const TrainerOptions& options);

}  // namespace brim
