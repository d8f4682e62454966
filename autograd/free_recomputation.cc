#include "brim/autograd/free_recomputation.h"

#include <algorithm>
#include <optional>

#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

// Weights and statistics beside activations: to hold them costs nothing.
constexpr int64_t kSmall = 16;  // of the output's bytes a sixteenth
// As many tensors of the output's size does one pass read.
constexpr int kMostSources = 3;
// Floating point operations for each element that is made again: of fewer the pass would be felt.
// A depthwise convolution of 3x3 has 18.
constexpr double kLeastWork = 32;

int64_t output_bytes(const Node& call) {
  const TensorInfo& output = call.outputs.front();
  return numel(output.shape) * size_of(output.dtype);
}

bool is_small(const Value& value, const Node& beside) {
  return value.bytes() * kSmall <= output_bytes(beside);
}

// Large tensors that are kept anyway and from which one pass makes `value` again.
int sources_of(const Value& value) {
  const std::shared_ptr<Node> producer = value.producer();
  int sources = 0;
  for (const SavedTensor& input : producer->replay_inputs) {
    const Value* source = input.value();
    if (source == nullptr || is_small(*source, *producer)) continue;
    sources += is_made_again(source->fate()) ? sources_of(*source) : 1;
  }
  return sources;
}

// None where it would be kept for this alone.
std::optional<int> sources_of_input(const RecordedCall& call, size_t i) {
  const auto& value = call.inputs[i];
  if (value == nullptr) return 0;
  if (is_made_again(value->fate())) return sources_of(*value);
  if (static_cast<int>(i) == call.overwritten) return {};
  if (is_small(*value, call.node)) return 0;
  const bool is_saved = std::ranges::count(call.saves.inputs, static_cast<int>(i)) > 0;
  if (is_saved || value->is_held()) return 1;
  return {};
}

}  // namespace

Decision FreeRecomputation::decide(const RecordedCall& call) {
  if (!call.node.op->is_one_pass()) return {};
  int sources = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::optional<int> of_input = sources_of_input(call, i);
    if (!of_input) return {};
    sources += *of_input;
  }
  if (sources > kMostSources) return {};
  std::vector<Fate> fates(call.node.outputs.size(), Fate::keep);
  fates.front() = Fate::retain;
  return {.fates = std::move(fates)};
}

bool FreeRecomputation::keeps_for(const Node& reader, int i) {
  if (!reader.op->reads_rows(i, reader.inputs, reader.outputs)) return false;
  const auto elements = static_cast<double>(numel(reader.inputs[static_cast<size_t>(i)].shape));
  return reader.op->flops(reader.inputs, reader.outputs) < kLeastWork * elements;
}

}  // namespace brim::autograd
