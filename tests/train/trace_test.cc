// Traces of whole training steps: what the meta device says is what the CPU does, our models hold
// nothing for nothing, and no op leaves a reference cycle behind.
#include <doctest/doctest.h>

#include <map>

#include "brim/autograd/backward.h"
#include "brim/autograd/trace_recorder.h"
#include "brim/memory/report/outliving.h"
#include "brim/nn/creation.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/linear.h"
#include "brim/ops/max.h"
#include "brim/ops/mul.h"
#include "brim/ops/neg.h"
#include "brim/ops/sum.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/evaluate.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

std::shared_ptr<memory::Account> fresh_account(Device device) {
  if (!device.is_meta()) return memory::capped_host_account("caching");
  return std::make_shared<memory::Account>(device, std::make_unique<memory::NullSource>(),
                                           memory::planner_named("caching"));
}

data::DeviceBatch blank_batch(int64_t count, int size, Device device) {
  data::DeviceBatch batch = data::empty_batch(count, size, device);
  fill(batch.images, 100);
  fill(batch.labels, 1);
  return batch;
}

// Two updates of two micro-steps, the second part smaller, and an evaluation.
void train(nn::Module& model, optim::Optimizer& optimizer, int64_t batch, int size, Device device) {
  TrainStep step(model, optimizer, {.seed = 1, .clip = {.norm = 1}});
  TrainerOptions options{.input = {.device = device}};
  for (int update = 0; update < 2; ++update) {
    step.begin();
    for (int64_t count : {batch, batch / 2})
      step.micro_step(
          [&] { return training_loss(model, blank_batch(count, size, device), options); },
          {.weight = 0.5, .samples = count});
    step.prepare(0.1);
    step.commit();
  }
  model.eval();
  memory::SectionScope section(memory::account(device), {memory::SectionKind::evaluation, batch});
  evaluate_batch(model, blank_batch(batch, size, device), options.input);
}

template <class Optimizer>
memory::Trace trace_of_small_net(Device device) {
  memory::AccountScope scope(fresh_account(device));
  autograd::TraceRecorder recorder(memory::account(device));
  auto model = nn::make<SmallNet>({.device = device});
  Optimizer optimizer(model->named_parameters());
  train(*model, optimizer, 4, 8, device);
  return recorder.take();
}

void check_same_but_for_seconds(const memory::Trace& a, memory::Trace b) {
  REQUIRE(a.buffers.size() == b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    CAPTURE(i);
    CAPTURE(to_string(a.buffers[i].origin));
    CHECK(a.buffers[i] == b.buffers[i]);
  }
  REQUIRE(a.ops.size() == b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    CAPTURE(i);
    CAPTURE(to_string(a.ops[i].origin));
    b.ops[i].begin_seconds = a.ops[i].begin_seconds;
    b.ops[i].end_seconds = a.ops[i].end_seconds;
    CHECK(a.ops[i] == b.ops[i]);
  }
  CHECK(a.sections == b.sections);
  CHECK(a.end == b.end);
}

double flops_of(const memory::Trace& trace, const char* op, memory::Phase phase, int64_t begin,
                int64_t end) {
  double flops = 0;
  for (const memory::TraceOp& each : trace.ops)
    if (each.origin.op == op && each.origin.phase == phase && each.begin >= begin &&
        each.end <= end)
      flops += each.flops;
  return flops;
}

std::string named(const std::map<std::string, int>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += name + " " + std::to_string(count) + " ";
  return text;
}

// Sizes that every model takes.
int size_for(const std::string& model) {
  if (model == "inception_v3") return 107;
  return model == "resnet20" ? 32 : 64;
}

}  // namespace

TEST_CASE("trace: the meta device's is the CPU's, buffer by buffer and op by op") {
  memory::Trace sgd = trace_of_small_net<optim::Sgd>(Device::meta());
  CHECK(sgd.buffers.size() > 100);
  CHECK(sgd.sections.size() == 7);
  check_same_but_for_seconds(sgd, trace_of_small_net<optim::Sgd>(Device::cpu()));
  check_same_but_for_seconds(trace_of_small_net<optim::AdamW>(Device::meta()),
                             trace_of_small_net<optim::AdamW>(Device::cpu()));
}

TEST_CASE("trace: parameters, gradients and states have a module path") {
  memory::Trace trace = trace_of_small_net<optim::AdamW>(Device::meta());
  int of_none = 0;
  for (const memory::TraceBuffer& buffer : trace.buffers) {
    using enum memory::Category;
    if (buffer.category != parameters && buffer.category != gradients &&
        buffer.category != optimizer)
      continue;
    CAPTURE(memory::to_string(buffer.category));
    CAPTURE(to_string(buffer.origin));
    if (buffer.origin.module == "") ++of_none;
    CHECK(buffer.origin.op != "");
  }
  CHECK(of_none == 2);  // the optimizer's own: its scalars, and a sum of squares per parameter
}

TEST_CASE("trace: FLOPs of products forward, and backward for each gradient that is wanted") {
  memory::Trace trace = trace_of_small_net<optim::Sgd>(Device::meta());
  const memory::TraceSection& first = trace.sections.at(0);
  auto flops = [&](const char* op, memory::Phase phase) {
    return flops_of(trace, op, phase, first.begin, first.end);
  };
  // Four images of 8x8, 3x3 from 3 to 8 channels and from 8 to 8; then 8 to 4 features.
  double conv1 = 2.0 * 4 * 64 * 8 * 27, conv2 = 2.0 * 4 * 64 * 8 * 72, linear = 2.0 * 4 * 8 * 4;
  CHECK(flops("conv2d", memory::Phase::forward) == conv1 + conv2);
  CHECK(flops("conv2d", memory::Phase::backward) == conv1 + 2 * conv2);  // images want none
  CHECK(flops("linear", memory::Phase::forward) == linear);
  CHECK(flops("linear", memory::Phase::backward) == 2 * linear);  // the bias's is not counted
}

TEST_CASE("trace: an update is made of the optimizer's kernels") {
  memory::Trace trace = trace_of_small_net<optim::Sgd>(Device::meta());
  std::map<std::string, int> kernels;
  for (const memory::TraceOp& op : trace.ops)
    if (op.origin.phase == memory::Phase::update) ++kernels[op.origin.op];
  CAPTURE(named(kernels));
  // Two updates of 8 parameters, with their rate and step, and once the norm is known the factor of
  // the clip; running statistics of two norms, to the shadows and back.
  CHECK(kernels ==
        std::map<std::string, int>{
            {"sgd", 2 * 8}, {"square_sum", 2 * 8}, {"step_scalars", 2 * 2}, {"copy", 2 * 2 * 4}});
}

namespace {

// Computes something else when the largest logit is large: no plan can know.
struct Gated final : nn::Module {
  Gated() {
    register_modules({{"net", net}});
    register_module("gate", gate);
  }
  Tensor forward(Tensor x) override {
    Tensor logits = net(std::move(x));
    if (gate(logits).item<float>() > 1) return mul(logits, logits);
    return logits;
  }

  struct Gate final : nn::Module {
    Tensor forward(Tensor x) override {
      line = __LINE__, x = max(std::move(x));
      return x;
    }
    int64_t line = 0;
  };
  SmallNet net;
  Gate gate;
};

}  // namespace

TEST_CASE("trace: control flow that depends on data is refused with the op that made the data") {
  auto account = fresh_account(Device::meta());
  memory::AccountScope scope(account);
  auto model = nn::make<Gated>({.device = Device::meta()});
  optim::Sgd sgd(model->named_parameters());
  TrainStep step(*model, sgd);
  int64_t before = account->stats().live;
  std::string text = error_text<DeviceError>([&] {
    step.run(0.1, [&] {
      return training_loss(*model, blank_batch(2, 8, Device::meta()),
                           {.input = {.device = Device::meta()}});
    });
  });
  CHECK(text ==
        "to_vector: the values of a tensor float32 [] were asked for while tracing on the meta "
        "device; it is the result of 'max' in module 'gate' (trace_test.cc:" +
            std::to_string(model->gate.line) +
            "): control flow that depends on data cannot be planned");
  CHECK(account->stats().live == before);
  CHECK(error_text<DeviceError>([] { ones({2}, {.device = Device::meta()}).to_vector<float>(); }) ==
        "to_vector: the values of a tensor float32 [2] were asked for while tracing on the meta "
        "device; it is made outside of ops: control flow that depends on data cannot be planned");
}

TEST_CASE("outliving: no model's step or evaluation holds bytes for nothing at its peak") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    memory::AccountScope scope(fresh_account(Device::meta()));
    autograd::TraceRecorder recorder(memory::account(Device::meta()));
    auto model = nn::make_model(name, {.classes = 10, .device = Device::meta()});
    optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
    train(*model, sgd, 8, size_for(name), Device::meta());
    memory::Trace trace = recorder.take();
    memory::Outliving found = memory::find_outliving(trace);
    CAPTURE(memory::to_string(found, trace));
    REQUIRE(found.sections.size() > 4);
    // But for the loss, which is there for the host to read after backward.
    for (const memory::OutlivingBuffer& each : found.buffers) {
      if (each.bytes_at_peak == 0) continue;
      CHECK(trace.buffers[static_cast<size_t>(each.buffer)].origin.op == "cross_entropy");
      CHECK(each.bytes_at_peak == 64);
    }
    for (const memory::OutlivingAtPeak& section : found.sections)
      CHECK(section.peak - section.possible <= 64);
  }
}

TEST_CASE("no op leaves a reference cycle: what a forward pass took comes back without it") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    auto account = fresh_account(Device::meta());
    memory::AccountScope scope(account);
    auto model = nn::make_model(name, {.classes = 10, .device = Device::meta()});
    int64_t before = account->stats().live;
    auto loss = [&] {
      return training_loss(*model, blank_batch(2, size_for(name), Device::meta()),
                           {.input = {.device = Device::meta()}});
    };
    { Tensor dropped = loss(); }
    CHECK(account->stats().live == before);
    backward(loss());
    for (const nn::NamedTensor& parameter : model->named_parameters())
      parameter.tensor.set_grad(Tensor());
    CHECK(account->stats().live == before);
  }
}

TEST_CASE("a saved input that backward takes goes at its last use, and stays in a retained graph") {
  auto account = fresh_account(Device::meta());
  memory::AccountScope scope(account);
  TensorOptions options{.device = Device::meta()};
  constexpr int64_t kBytes = 64 * 64 * 4;
  Tensor weight = ones({64, 64}, options).set_requires_grad();
  auto peak_of_backward = [&](bool retain) {
    Tensor x = ones({64, 64}, options).set_requires_grad();
    Tensor y = linear(neg(x), weight, {});  // of which only the tape holds what neg made
    account->reset_peak();
    int64_t before = account->stats().live;
    backward(sum(std::move(y)), {.retain_graph = retain});
    weight.set_grad(Tensor());
    return account->stats().peak_live - before;
  };
  CHECK(peak_of_backward(true) - peak_of_backward(false) == kBytes);
}

TEST_CASE("a hook that captures its own tensor lets it go when backward has run") {
  auto account = fresh_account(Device::meta());
  memory::AccountScope scope(account);
  {
    TensorOptions options{.device = Device::meta()};
    Tensor x = ones({8}, options).set_requires_grad();
    Tensor y = mul(x, x);
    register_hook(y, [y](const Tensor& grad) { return mul(grad, y); });
    backward(y, {.grad = ones({8}, options)});
  }
  CHECK(account->stats().live == 0);
}
