#include "brim/train/op_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "brim/autograd/effects.h"
#include "brim/autograd/node.h"
#include "brim/autograd/trace_recorder.h"
#include "brim/train/device_speed.h"

namespace brim {
namespace {

using autograd::TensorInfo;
using memory::Phase;

Phase phase_of(autograd::Phase phase) {
  switch (phase) {
    case autograd::Phase::forward:
      return Phase::forward;
    case autograd::Phase::backward:
      return Phase::backward;
    case autograd::Phase::recompute:
      return Phase::recompute;
  }
  return Phase::other;
}

void append(std::string& text, const std::vector<TensorInfo>& infos) {
  for (const TensorInfo& info : infos)
    fmt::format_to(std::back_inserter(text), " {}{}", to_string(info.dtype), to_string(info.shape));
}

std::string key_of(const char* op, Phase phase, const std::vector<TensorInfo>& inputs,
                   const std::vector<TensorInfo>& outputs, double flops,
                   const autograd::Needs& needs) {
  std::string text = run_name(op, phase);
  append(text, inputs);
  text += " ->";
  append(text, outputs);
  fmt::format_to(std::back_inserter(text), ", {} FLOPs", flops);
  if (phase == Phase::backward)
    for (bool needed : needs) text += needed ? " +" : " -";
  return text;
}

// Some rows of a result, for who reads them at once (autograd/saved_rows.h). They stay in the
// caches: what is written never reaches the memory, and as much is not read from there afterwards.
bool makes_rows(const autograd::OpEvent& event) {
  if (event.phase != autograd::Phase::recompute || event.node == nullptr) return false;
  const Tensor& made = event.outputs.front();
  return made.defined() && made.shape() != event.node->outputs.front().shape;
}

}  // namespace

std::string OpCall::key(Phase phase) const {
  return key_of(op->name(), phase, inputs, outputs, flops(), needs);
}

OpCall call_of(const autograd::Node& node) {
  OpCall call{node.op, node.inputs, node.outputs, {}, node.context};
  for (const autograd::Edge& edge : node.edges) call.needs.push_back(edge.wanted());
  return call;
}

OpRun replay_of(const OpCall& call, const OpRun& forward) {
  OpRun run = forward;
  run.phase = Phase::recompute;
  if (!run.key.empty()) run.key = call.key(Phase::recompute);
  if (call.op->is_one_pass()) {
    run.bytes_moved = bytes_of(call.inputs) + bytes_of(call.outputs);
  } else {  // effects do not happen again, and what it starts from is not written again
    run.bytes_moved -= run.bytes_of_effects;
    for (int anchor : call.op->anchors())
      run.bytes_moved -= call.outputs[static_cast<size_t>(anchor)].bytes();
  }
  run.bytes_of_effects = 0;
  return run;
}

size_t OpRuns::current() {
  const memory::Site& site = memory::current_site();
  auto [found, is_new] = numbers_.try_emplace(site.run, seen_.runs.size());
  if (is_new) seen_.runs.push_back({.op = site.op, .phase = site.phase});
  return found->second;
}

SeenRuns OpRuns::take() {
  watching_ = false;
  return std::move(seen_);
}

void OpRuns::ran(const autograd::OpEvent& event) {
  if (!watching_) return;
  OpRun& run = seen_.runs[current()];
  run.phase = phase_of(event.phase);
  const autograd::Node* node = event.node;
  if (event.phase == autograd::Phase::backward) {
    run.flops = autograd::backward_flops(*node);
    if (!keeps_calls_) return;
    OpCall call = call_of(*node);
    run.key = call.key(Phase::backward);
    seen_.calls.try_emplace(run.key, std::move(call));
    return;
  }
  const std::vector<TensorInfo> inputs = autograd::infos_of(event.inputs),
                                outputs = autograd::infos_of(event.outputs);
  run.flops = event.op.flops(inputs, outputs);
  if (makes_rows(event))
    run.bytes_moved = std::max<int64_t>(bytes_of(inputs) - bytes_of(outputs), 0);
  if (keeps_calls_) run.key = key_of(event.op.name(), run.phase, inputs, outputs, run.flops, {});
}

void OpRuns::launched(const LaunchEvent& event) {
  if (!watching_) return;
  const memory::Site& site = memory::current_site();
  const bool is_of_op = site.run != 0 && *site.op != '\0';
  OpRun& run =
      is_of_op ? seen_.runs[current()] : seen_.runs.emplace_back(OpRun{.op = event.kernel});
  const int64_t widened = autograd::bytes_widened(event);
  const int64_t moved = autograd::bytes_moved(event) - widened;
  run.bytes_moved += moved;
  if (autograd::is_applying_effects()) run.bytes_of_effects += moved;
  run.bytes_widened += widened;
}

}  // namespace brim
