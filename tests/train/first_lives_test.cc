// Traces of whole training steps in which values are not kept: what is made again or fetched for
// backward is what forward let go.
#include "brim/memory/report/first_lives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "brim/autograd/offload_all.h"
#include "brim/autograd/trace_recorder.h"
#include "brim/memory/fetch_name.h"
#include "brim/nn/creation.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/cross_entropy.h"
#include "brim/optim/sgd.h"
#include "brim/train/train_step.h"
#include "brim/train/trainer.h"

using namespace brim;

namespace {

/// Of one step of ResNet-20 on the meta device.
memory::Trace trace_of_step(const RecomputeOptions& recompute) {
  const Device meta = Device::meta();
  auto account = std::make_shared<memory::Account>(meta, std::make_unique<memory::NullSource>(),
                                                   memory::planner_named("caching"));
  memory::AccountScope scope(account);
  auto model = nn::make_model("resnet20", {.classes = 10, .device = meta});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  TrainStep step(*model, sgd, {.recompute = recompute});
  autograd::TraceRecorder recorder(account);
  step.run(0.1, [&] {
    return cross_entropy((*model)(zeros({4, 32, 32, 3}, {.device = meta})),
                         zeros({4}, {.dtype = Dtype::int64, .device = meta}));
  });
  return recorder.take();
}

/// The modules of the calls that wrote to a buffer.
std::vector<std::string> writers(const memory::Trace& trace, int64_t buffer, memory::Phase phase) {
  std::vector<std::string> modules;
  for (const memory::TraceOp& op : trace.ops)
    if (op.origin.phase == phase && std::ranges::count(op.outputs, buffer) > 0)
      modules.push_back(op.origin.module);
  REQUIRE(!modules.empty());
  return modules;
}

}  // namespace

TEST_CASE("in a step that recomputes, values made again are those that forward let go") {
  const memory::Trace trace = trace_of_step(free_recomputation());
  const std::vector<int64_t> first = memory::first_lives(trace);
  int64_t found = 0, rebuilt = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const memory::TraceBuffer& later = trace.buffers[i];
    rebuilt += later.origin.phase == memory::Phase::recompute &&
               later.category == memory::Category::activations;
    if (first[i] < 0) continue;
    ++found;
    const memory::TraceBuffer& before = trace.buffers[static_cast<size_t>(first[i])];
    CHECK(before.origin.phase == memory::Phase::forward);
    // Another may have asked for it, over whose result this was written.
    CHECK(writers(trace, first[i], memory::Phase::forward).back() ==
          writers(trace, static_cast<int64_t>(i), memory::Phase::recompute).front());
    CHECK(before.shape == later.shape);
    CHECK(before.death <= later.birth);
  }
  // Of those that are left the buffer went on, with what was written over them.
  CHECK(found > 0);
  CHECK(2 * found > rebuilt);
}

TEST_CASE("in a step that offloads, what is fetched is what forward moved, each once") {
  autograd::Offload engine(Device::meta(), autograd::offload_host(Device::meta()));
  autograd::OffloadScope moving(&engine);
  const memory::Trace trace =
      trace_of_step({"all", [] { return std::make_unique<autograd::OffloadAll>(); }});
  const std::vector<int64_t> first = memory::first_lives(trace);
  std::set<int64_t> moved;
  for (size_t i = 0; i < first.size(); ++i) {
    const memory::Origin& origin = trace.buffers[i].origin;
    CAPTURE(to_string(origin));
    REQUIRE((first[i] >= 0) == memory::fetched_op(origin.op).has_value());
    if (first[i] < 0) continue;
    CHECK(moved.insert(first[i]).second);
    const memory::Origin& before = trace.buffers[static_cast<size_t>(first[i])].origin;
    CHECK(before.phase == memory::Phase::forward);
    CHECK(before.op == memory::fetched_op(origin.op));
    CHECK(before.module == origin.module);
  }
  CHECK(std::ssize(moved) == engine.stats().copies_in);
  CHECK(std::ssize(moved) > 20);
}
