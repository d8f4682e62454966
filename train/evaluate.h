// Accuracy of a model over a dataset.
#pragma once

#include "brim/data/loader.h"
#include "brim/nn/module.h"
#include "brim/train/input.h"

namespace brim {

struct Evaluation {
  int64_t images = 0;
  double loss = 0;      ///< mean cross entropy
  double accuracy = 0;  ///< share of images whose class has the largest logit
};

/// Runs the model in eval mode, without gradients, over one epoch of `loader`; the mode is as
/// before afterwards. Throws `ValueError` where a logit is NaN.
Evaluation evaluate(nn::Module& model, data::Loader& loader, const InputOptions& input);

/// Images whose label has the largest of their logits ([N,C]); of equal ones the first counts.
int64_t count_correct(const Tensor& logits, std::span<const int64_t> labels);

}  // namespace brim
