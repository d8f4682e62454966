#include "brim/optim/step_scalars.h"

#include "brim/core/call_list.h"
#include "brim/optim/require_kernel.h"

namespace brim::optim {

StepScalars::StepScalars(const char* optimizer, Device device) {
  require_kernel(optimizer, kernel::step_scalars.name, device, Dtype::float64);
  memory::CategoryScope category(memory::Category::optimizer);
  memory::SiteScope site({.op = optimizer});
  buffer_ = zeros({kCount}, {.dtype = Dtype::float64, .device = device});
}

void StepScalars::write(const StepValues& values) noexcept {
  if (is_recording()) return;
  kernel::StepScalarsAttributes attributes;
  attributes.values[kRate] = values.rate;
  attributes.values[kInverseScale] = 1 / values.loss_scale;
  attributes.values[kStep] = static_cast<double>(values.step);
  attributes.values[kClipValue] = values.clip_value;
  attributes.values[kClipNorm] = values.clip_norm;
  attributes.values[kClipFactor] = values.clip_factor;
  attributes.values[kApplied] = values.applied ? 1 : 0;
  launch(kernel::step_scalars, {}, {buffer_}, attributes);
}

}  // namespace brim::optim
