#include "brim/autograd/offload_all.h"

namespace brim::autograd {

OffloadAll::OffloadAll(int64_t least_bytes, std::unique_ptr<SavePolicy> inner)
    : least_bytes_(least_bytes), inner_(std::move(inner)) {}

Decision OffloadAll::decide(const RecordedCall& call) {
  Decision decision = inner_ != nullptr ? inner_->decide(call) : Decision();
  decision.fates.resize(call.outputs.size(), Fate::keep);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Tensor& output = call.outputs[i];
    if (decision.fates[i] == Fate::keep && output.defined() &&
        output.numel() * size_of(output.dtype()) >= least_bytes_)
      decision.fates[i] = Fate::offload;
  }
  return decision;
}

}  // namespace brim::autograd
