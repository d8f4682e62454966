#include "brim/train/scale_penalty.h"

#include <utility>
#include <vector>

#include "brim/nn/batch_norm2d.h"
#include "brim/ops/abs.h"
#include "brim/ops/add.h"
#include "brim/ops/concat.h"
#include "brim/ops/mul.h"
#include "brim/ops/sum.h"

namespace brim {

Tensor with_scale_penalty(Tensor loss, nn::Module& model, double factor) {
  if (factor == 0) return loss;
  std::vector<Tensor> scales;
  for (const nn::NamedModule& part : model.named_modules())
    if (const auto* norm = dynamic_cast<const nn::BatchNorm2d*>(&part.module);
        norm != nullptr && norm->weight.requires_grad())
      scales.push_back(norm->weight);
  if (scales.empty()) return loss;
  Tensor magnitudes = sum(abs(concat(std::move(scales), 0)));
  const Tensor times = full({}, factor, {.dtype = magnitudes.dtype(), .device = loss.device()});
  return add(std::move(loss), mul(std::move(magnitudes), times));
}

}  // namespace brim
