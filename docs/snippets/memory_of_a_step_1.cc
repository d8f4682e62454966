// Where the bytes of a training step go: ResNet-18 on the meta device, its peak
// by category, what is saved for backward, and the plan for it. With the name
// of a file it writes the page of it there.
#include <cstdio>
#include <fstream>

#include "brim/autograd/trace_recorder.h"
#include "brim/base/bytes.h"
#include "brim/memory/plan/plan.h"
#include "brim/memory/report/html.h"
#include "brim/memory/report/live_curve.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/ops.h"
#include "brim/optim/sgd.h"
#include "brim/train/train_step.h"

using namespace brim;
using memory::Category;

namespace {

// [trace]
memory::Trace trace_two_steps() {
  const Device meta = Device::meta();
  auto account = std::make_shared<memory::Account>(meta, std::make_unique<memory::NullSource>(),
                                                   memory::planner_named("direct"));
  memory::AccountScope scope(account);
  autograd::TraceRecorder recorder(account);
  auto model = nn::make_model("resnet18", {.device = meta});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  TrainStep step(*model, sgd);
  for (int i = 0; i < 2; ++i) {
    memory::CategoryScope category(Category::input);
    Tensor images = empty({32, 224, 224, 3}, {.device = meta});
    Tensor labels = empty({32}, {.dtype = Dtype::int64, .device = meta});
    memory::CategoryScope inside(Category::activations);
    step.run(/*rate=*/0.1, [&] { return cross_entropy((*model)(images), labels); },
             {.samples = 32});
  }
  return recorder.take();
}
// [/trace]

void print(const char *when, const memory::BytesByCategory &bytes) {
  std::printf("%s:", when);
  for (size_t i = 0; i < memory::kCategories; ++i)
    if (bytes[i] > 0)
      std::printf(" %s %s", std::string(memory::kCategoryNames[i]).c_str(),
                  format_bytes(bytes[i]).c_str());
  std::printf("\n");
}

}  // namespace

int main(int argc, char **argv) {
  // [curve]
  const memory::Trace trace = trace_two_steps();
  const auto curve = memory::live_curve(trace);  // after each request
  const std::vector<int64_t> live = memory::totals(curve);
  const int64_t peak = memory::peak_time(live);
  auto bytes = [&](int64_t time, Category category) {
    return curve[static_cast<size_t>(time)][static_cast<size_t>(category)];
  };
  check(live[static_cast<size_t>(peak)] == trace.peak_live(), "the peak of the trace");
  check(trace.buffers[static_cast<size_t>(peak)].origin.phase == memory::Phase::backward,
        "the request that makes it is one of backward");
  // [/curve]

  // [roles]
  const int64_t last = trace.sections[0].end - 1;  // the last request of the first step's backward
  const int64_t parameters = bytes(last, Category::parameters);
  check(bytes(last, Category::gradients) == parameters, "a gradient for each parameter");
  check(bytes(last, Category::optimizer) - parameters < 4096, "a momentum, and some scalars");
  check(bytes(peak, Category::gradients) < parameters, "at the peak only some of them exist");
  // [/roles]

  // [saved]
  const int64_t turn = std::ranges::find(trace.buffers, memory::Phase::backward, [](const auto &b) {
                         return b.origin.phase;
                       })->birth;  // the first request of backward
  int64_t outputs = 0, saved = 0;
  for (const memory::TraceBuffer &each : trace.buffers) {
    if (each.category != Category::activations || each.origin.phase != memory::Phase::forward ||
        each.birth > turn)
      continue;
    outputs += each.bytes;
    if (each.death > turn) saved += each.bytes;
  }
  check(saved > 0.7 * static_cast<double>(trace.peak_live()), "most of the peak");
  // [/saved]

  // [idle]
  double idle = 0, held = 0;  // bytes times requests, of what is saved
  for (const memory::TraceBuffer &each : trace.buffers)
    if (each.category == Category::activations && each.birth < turn && each.death > turn) {
      held += static_cast<double>(each.bytes * (each.death - each.birth));
      idle += static_cast<double>(each.bytes * (each.death - each.last_use));
    }
  check(idle < 0.02 * held, "what was used for the last time is freed at once");
  // [/idle]

  // [plan]
  const memory::Plan plan = memory::make_plan(trace);
  check(plan.lower_bound == trace.peak_live(), "no arena can be smaller");
  check(plan.gap() < 0.05, "and this one is hardly larger");
  // [/plan]

  print("at the peak", curve[static_cast<size_t>(peak)]);
  print("as backward begins", curve[static_cast<size_t>(turn)]);
  print("as it ends", curve[static_cast<size_t>(last)]);
  std::printf("peak %s in %s of %s; outputs of forward %s, saved %s; idle %.2f%%\n",
              format_bytes(trace.peak_live()).c_str(),
              trace.buffers[static_cast<size_t>(peak)].origin.op.c_str(),
              trace.buffers[static_cast<size_t>(peak)].origin.module.c_str(),
              format_bytes(outputs).c_str(), format_bytes(saved).c_str(), 100 * idle / held);
  std::printf("arena %s, %.2f%% above the lower bound\n", format_bytes(plan.arena_bytes).c_str(),
              100 * plan.gap());
  if (argc < 2) return 0;

  // [page]
  std::ofstream(argv[1]) << memory::html_page(trace,
                                              {.title = "ResNet-18, a training step",
                                               .subtitle = {"batch 32, 224×224, SGD with momentum"},
                                               .offsets = memory::offsets_in(plan, trace),
                                               .arena_bytes = plan.arena_bytes});
  // [/page]
}
