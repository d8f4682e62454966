// What tracing costs: seconds to make a model on the meta device and to run one training step and
// one evaluation of it, bare and recorded in turn, and to write the trace as JSON and read it;
// medians.
//
//   trace_bench [model] [batch] [runs]
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "brim/autograd/trace_recorder.h"
#include "brim/bench/timing.h"
#include "brim/memory/report/outliving.h"
#include "brim/memory/trace_json.h"
#include "brim/nn/models/registry.h"
#include "brim/optim/sgd.h"
#include "brim/train/evaluate.h"
#include "brim/train/trainer.h"

namespace brim {
namespace {

using bench::median;
using bench::seconds_of;

memory::Trace rehearse(const std::string& name, int64_t batch, bool recorded) {
  constexpr Device kMeta = Device::meta();
  memory::AccountScope scope(std::make_shared<memory::Account>(
      kMeta, std::make_unique<memory::NullSource>(), memory::planner_named("caching")));
  std::optional<autograd::TraceRecorder> recorder;
  if (recorded) recorder.emplace(memory::account(kMeta));
  auto model = nn::make_model(name, {.device = kMeta});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  TrainStep step(*model, sgd);
  TrainerOptions options{.input = {.device = kMeta}};
  step.run(0.1,
           [&] { return training_loss(*model, data::empty_batch(batch, 224, kMeta), options); });
  model->eval();
  evaluate_batch(*model, data::empty_batch(batch, 224, kMeta), options.input);
  return recorded ? recorder->take() : memory::Trace{};
}

void run(const std::string& name, int64_t batch, int runs) {
  std::vector<double> bare, recorded, writing, reading;
  memory::Trace trace;
  std::string text;
  for (int i = 0; i <= runs; ++i) {  // the first to warm up
    bare.push_back(seconds_of([&] { rehearse(name, batch, false); }));
    recorded.push_back(seconds_of([&] { trace = rehearse(name, batch, true); }));
    writing.push_back(seconds_of([&] { text = memory::to_json(trace); }));
    reading.push_back(seconds_of([&] { memory::trace_from_json(text); }));
  }
  for (auto* times : {&bare, &recorded, &writing, &reading}) times->erase(times->begin());
  fmt::print(
      "{} of {}: {} buffers, {} ops; bare {:.4f} s, recorded {:.4f} s; {} bytes of JSON, written "
      "in "
      "{:.4f} s, read in {:.4f} s\n{}",
      name, batch, trace.buffers.size(), trace.ops.size(), median(bare), median(recorded),
      text.size(), median(writing), median(reading),
      memory::to_string(memory::find_outliving(trace), trace));
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  int64_t batch = argc > 2 ? std::atoll(argv[2]) : 32;
  int runs = argc > 3 ? std::max(std::atoi(argv[3]), 1) : 5;
  if (argc > 1) {
    brim::run(argv[1], batch, runs);
  } else {
    for (const char* name : {"resnet50", "resnet152"}) brim::run(name, batch, runs);
  }
}
