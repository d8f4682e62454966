#include "brim/autograd/free_recomputation.h"

#include <algorithm>
#include <optional>

#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

// Weights and statistics beside activations: to hold them costs nothing.
constexpr int64_t kSmall = 16;  // of the output's bytes a sixteenth
// Calls to run again, and tensors of the output's size that they read.
constexpr int kMostCalls = 3, kMostSources = 3;
// Floating point operations for each element that is made again: of fewer the pass would be felt.
// A depthwise convolution of 3x3 has 18.
constexpr double kLeastWork = 32;

bool is_small(const Value& value, const Node& beside) {
  return value.bytes() * kSmall <= beside.outputs.front().bytes();
}

/// What it takes to make a value again from what is kept anyway.
struct Pass {
  int calls = 0, sources = 0;

  void add(const Pass& other) {
    calls += other.calls;
    sources += other.sources;
  }
  bool costs_little() const { return calls <= kMostCalls && sources <= kMostSources; }
};

bool must_be_made(const Value& value) { return is_made_again(value.fate()) && !value.is_held(); }

// Not deeper than a pass may be: other policies may have dropped more.
Pass pass_for(const Value& value, int depth = 1) {
  if (depth > kMostCalls) return {.calls = depth};
  const std::shared_ptr<Node> producer = value.producer();
  Pass pass{.calls = 1};
  for (const SavedTensor& input : producer->replay_inputs) {
    const Value* source = input.value();
    if (source == nullptr || is_small(*source, *producer)) continue;
    pass.add(must_be_made(*source) ? pass_for(*source, depth + 1) : Pass{.sources = 1});
  }
  return pass;
}

// Nothing where an input would be kept for this alone.
std::optional<Pass> pass_for_input(const RecordedCall& call, size_t i) {
  const auto& value = call.inputs[i];
  if (value == nullptr) return Pass();
  if (must_be_made(*value)) return pass_for(*value);
  if (static_cast<int>(i) == call.overwritten) return {};
  if (is_small(*value, call.node)) return Pass();
  // Of a cast parameter: it stays as it is until backward has run.
  const bool is_cast = call.node.inputs[i].dtype != call.node.outputs.front().dtype;
  if (is_cast && call.node.edges[i].leaf != nullptr) return Pass{.sources = 1};
  const bool is_saved = std::ranges::count(call.saves.inputs, static_cast<int>(i)) > 0;
  if (!is_saved && !value->is_held()) return {};
  return Pass{.sources = 1};
}

}  // namespace

Decision FreeRecomputation::decide(const RecordedCall& call) {
  if (!call.node.op->is_one_pass()) return {};
  Pass pass{.calls = 1};
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::optional<Pass> of_input = pass_for_input(call, i);
    if (!of_input) return {};
    pass.add(*of_input);
  }
  if (!pass.costs_little()) return {};
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
