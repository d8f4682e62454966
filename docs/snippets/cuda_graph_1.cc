// What cuda_graph.md shows: a key whose update is read from memory, calls of the CPU that are
// recorded, and a step that is, where there is a GPU.
#include <cstdio>

#include "brim/base/cuda/devices.h"
#include "brim/brim.h"
#include "brim/core/call_list.h"
#include "brim/core/transfer.h"
#include "brim/train/step_graph.h"

using namespace brim;

namespace {

void check_key() {
  // [key]
  double update = 5;  // in a training: in the GPU's memory
  const uint64_t call = hash_of("classifier.drop:dropout");
  const LiveKey live{.update = &update, .seed = 1, .call = call, .ordinal = 0};
  check(live.key_or({}) == call_key(1, 5, call, 0), "the key of update 5");
  update = 6;
  check(live.key_or({}) == call_key(1, 6, call, 0), "and, by the same kernel, of update 6");
  // [/key]
}

void record_calls() {
  const Tensor x = zeros({1});
  const std::vector<float> three{3};
  // [calls]
  CallRecording recording;
  const Tensor y = add(x, x);  // nothing runs
  const CallList calls = recording.finish();
  copy_from_host(x, three.data());
  calls.run();
  check(y.item<float>() == 6, "what x is by now");
  // [/calls]
}

// For want of a plan no update is recorded here.
void run_steps() {
  if (cuda::device_count() == 0) return;
  const TensorOptions on_gpu{.device = Device::cuda()};
  const auto made = nn::make<nn::Linear>({.device = Device::cuda()}, 8, 4);
  nn::Linear& model = *made;
  optim::Sgd sgd(model.named_parameters());
  const Tensor images = uniform({16, 8}, -1, 1, RandomKey{1}, on_gpu),
               labels = zeros({16}, {.dtype = Dtype::int64, .device = Device::cuda()});
  // [step]
  TrainStep step(model, sgd, {.graph = true});
  StepGraph graph(step);
  auto update = [&] { return step.run(0.1, [&] { return cross_entropy(model(images), labels); }); };
  for (int i = 0; i < 3; ++i) graph.run({.rate = 0.1, .run = update});
  // [/step]
  check(graph.replays() == 0 && !graph.why_not().empty(), "the planner promises no addresses");
}

}  // namespace

int main() {
  check_key();
  record_calls();
  run_steps();
  std::puts("as the chapter says");
}
