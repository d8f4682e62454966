#include "brim/autograd/free_recomputation.h"

#include <algorithm>

#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

// Weights and statistics beside activations: to hold them costs nothing.
constexpr int64_t kSmall = 16;  // of the output's bytes a sixteenth

bool is_kept_anyway(const RecordedCall& call, size_t i) {
  const auto& value = call.inputs[i];
  if (value == nullptr) return true;
  if (is_made_again(value->fate()) || static_cast<int>(i) == call.overwritten) return false;
  const bool is_saved = std::ranges::count(call.saves.inputs, static_cast<int>(i)) > 0;
  return is_saved || value->is_held() || value->bytes() * kSmall <= call.node.outputs.front().bytes();
}

}  // namespace

Decision FreeRecomputation::decide(const RecordedCall& call) {
  if (!call.node.op->is_one_pass()) return {};
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (!is_kept_anyway(call, i)) return {};
  std::vector<Fate> fates(call.node.outputs.size(), Fate::keep);
  fates.front() = Fate::retain;
  return {.fates = std::move(fates)};
}

}  // namespace brim::autograd
