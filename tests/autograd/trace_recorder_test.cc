// A small program by hand: what the trace must say of each buffer and op.
#include "brim/autograd/trace_recorder.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::autograd;

namespace {

constexpr Kernel<NoAttributes> weigh_kernel{"test_weigh"};
constexpr Kernel<NoAttributes> weigh_gradient{"test_weigh_gradient"};

const bool registered =
    (register_kernel(
         weigh_kernel, DeviceType::cpu, Dtype::float32, [](const KernelCall&, const auto&) {},
         [](const KernelCall&, const auto&) { return int64_t{100}; }),
     register_kernel(weigh_gradient, DeviceType::cpu, Dtype::float32,
                     [](const KernelCall&, const auto&) {}),
     true);

// y[i,j] = x[i,j] * w[j], by kernels that do nothing.
class Weigh final : public Op {
 public:
  const char* name() const override { return "weigh"; }
  Tensors forward(const Tensors& in, const ForwardContext&) const override {
    Tensor y = empty_like(in[0]);
    launch(weigh_kernel, {in[0], in[1]}, {y});
    return {y};
  }
  Saves saves(const Needs&) const override { return {.inputs = {0, 1}}; }
  Tensors backward(BackwardCall& call) const override {
    Tensor dy = call.take_grad(), dx = empty_like(dy);
    launch(weigh_kernel, {dy, call.input(1)}, {dx});
    Tensor dw = empty_like(call.input(1));
    launch(weigh_gradient, {dy, call.input(0)}, {dw});
    return {dx, dw};
  }
  double flops(std::span<const TensorInfo> in, std::span<const TensorInfo>) const override {
    return 2 * static_cast<double>(numel(in[0].shape));
  }
};

Tensor weigh(Tensor x, Tensor w, Where where = Where::current()) {
  return apply_one(std::make_shared<Weigh>(), {std::move(x), std::move(w)}, where);
}

struct Program {
  explicit Program(Device device) : options{.device = device} {
    REQUIRE(registered);
    x.set_requires_grad();
    w.set_requires_grad();
  }
  void run() {
    ModuleScope module("block");
    y = weigh(weigh(x, w), w), line = __LINE__;
    backward(y, {.grad = full({4, 32}, 1, options)});
  }
  TensorOptions options;
  memory::CategoryScope category{memory::Category::parameters};
  Tensor x = zeros({4, 32}, options), w = zeros({32}, options), y;
  int64_t line = 0;
};

std::shared_ptr<memory::Account> fresh_account(Device device) {
  if (!device.is_meta()) return memory::capped_host_account("caching");
  return std::make_shared<memory::Account>(device, std::make_unique<memory::NullSource>(),
                                           memory::planner_named("caching"));
}

struct Expected {
  int64_t bytes;
  memory::Category category;
  int64_t run, death, last_use;
};

using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("a trace has every buffer with its bytes, category, run, lifetime and last use") {
  using enum memory::Category;
  for (Device device : {Device::meta(), Device::cpu()}) {
    memory::AccountScope scope(fresh_account(device));
    Program program(device);
    TraceRecorder recorder(memory::account(device));
    program.run();
    memory::Trace trace = recorder.take();
    const std::vector<Expected> expected{
        {512, parameters, 0, 13, 13},  // x
        {128, parameters, 0, 13, 12},  // w
        {512, parameters, 1, 10, 10},  // the inner result, saved
        {128, scratch, 1, 4, 4},       // of 100 bytes
        {512, parameters, 2, 13, 6},   // y: backward does not read it
        {128, scratch, 2, 6, 6},
        {512, parameters, 3, 10, 10},  // the gradient to start from
        {512, parameters, 4, 13, 13},  // dx of the outer one
        {128, scratch, 4, 9, 9},
        {128, gradients, 4, 13, 13},  // dw of the outer one, which becomes w's gradient
        {512, gradients, 5, 13, 12},  // x's gradient
        {128, scratch, 5, 12, 12},
        {128, parameters, 5, 13, 13},  // dw of the inner one, added to w's gradient
    };
    REQUIRE(trace.buffers.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      const memory::TraceBuffer& buffer = trace.buffers[i];
      CHECK(buffer.bytes == expected[i].bytes);
      CHECK(buffer.category == expected[i].category);
      CHECK(buffer.run == expected[i].run);
      CHECK(buffer.birth == static_cast<int64_t>(i));
      CHECK(buffer.death == expected[i].death);
      CHECK(buffer.last_use == expected[i].last_use);
    }
    CHECK(trace.end == 13);
    CHECK(trace.buffers[2].shape == "float32 [4,32]");
    CHECK(trace.buffers[3].shape == "");
    CHECK(trace.peak_live() == memory::account(device)->stats().peak_live);
  }
}

TEST_CASE("a trace says of every buffer and op where it comes from") {
  memory::AccountScope scope(fresh_account(Device::meta()));
  Program program(Device::meta());
  TraceRecorder recorder(memory::account(Device::meta()));
  program.run();
  memory::Trace trace = recorder.take();
  auto check_origin = [&](const memory::Origin& origin, memory::Phase phase) {
    CHECK(origin.op == "weigh");
    CHECK(origin.module == "block");
    CHECK(testing::contains(origin.file, "trace_recorder_test.cc"));
    CHECK(origin.line == program.line);
    CHECK(origin.phase == phase);
  };
  for (size_t i : {2, 3, 4, 5}) check_origin(trace.buffers[i].origin, memory::Phase::forward);
  for (size_t i : {7, 8, 9, 10, 11, 12})
    check_origin(trace.buffers[i].origin, memory::Phase::backward);
  for (size_t i : {0, 1, 6}) {
    CHECK(trace.buffers[i].origin.op == "");
    CHECK(trace.buffers[i].origin.phase == memory::Phase::other);
  }
  REQUIRE(trace.ops.size() == 5);
  check_origin(trace.ops[0].origin, memory::Phase::forward);
  check_origin(trace.ops[4].origin, memory::Phase::backward);
  CHECK(trace.ops[2].origin.op == "fill");
  CHECK(trace.ops[2].origin.phase == memory::Phase::other);
}

TEST_CASE("a trace knows a buffer by the name that it is given last, held or gone") {
  memory::AccountScope scope(fresh_account(Device::meta()));
  auto account = memory::account(Device::meta());
  TraceRecorder recorder(account);
  const std::string first = "0.weight", second = "conv.weight";
  Tensor weight = zeros({8}, {.device = Device::meta()});
  weight.storage()->set_site({.op = "parameter", .module = &first});
  {
    Tensor state = zeros({8}, {.device = Device::meta()});
    state.storage()->set_site({.op = "adam", .module = &first, .phase = memory::Phase::update});
  }
  weight.storage()->set_site({.op = "parameter", .module = &second});
  memory::Trace trace = recorder.take();
  REQUIRE(trace.buffers.size() == 2);
  CHECK(trace.buffers[0].origin.module == second);
  CHECK(trace.buffers[0].origin.op == "parameter");
  CHECK(trace.buffers[1].origin.module == first);
  CHECK(trace.buffers[1].origin.op == "adam");
  CHECK(trace.buffers[1].origin.phase == memory::Phase::other);  // when it was asked for
}

TEST_CASE("a trace has every op with its time, buffers, FLOPs and bytes moved") {
  memory::AccountScope scope(fresh_account(Device::meta()));
  Program program(Device::meta());
  TraceRecorder recorder(memory::account(Device::meta()));
  program.run();
  memory::Trace trace = recorder.take();
  // Of x with 128 elements: forward twice, the gradient to start from, backward twice. Backward has
  // the FLOPs of dx alone: w is a vector.
  const std::vector<memory::TraceOp> expected{
      {.begin = 2, .end = 4, .inputs = {0, 1}, .outputs = {2}, .flops = 256, .bytes_moved = 1152},
      {.begin = 4, .end = 6, .inputs = {2, 1}, .outputs = {4}, .flops = 256, .bytes_moved = 1152},
      {.begin = 7, .end = 7, .inputs = {}, .outputs = {6}, .flops = 0, .bytes_moved = 512},
      {.begin = 7,
       .end = 10,
       .inputs = {6, 1, 2},
       .outputs = {7, 9},
       .flops = 256,
       .bytes_moved = 2304},
      // With the sum of both gradients of w, which is read and written.
      {.begin = 10,
       .end = 13,
       .inputs = {7, 1, 0, 12, 9},
       .outputs = {10, 12, 9},
       .flops = 256,
       .bytes_moved = 2304 + 384},
  };
  REQUIRE(trace.ops.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    const memory::TraceOp& op = trace.ops[i];
    CHECK(op.begin == expected[i].begin);
    CHECK(op.end == expected[i].end);
    CHECK(op.inputs == expected[i].inputs);
    CHECK(op.outputs == expected[i].outputs);
    CHECK(op.flops == expected[i].flops);
    CHECK(op.bytes_moved == expected[i].bytes_moved);
    CHECK(op.end_seconds == 0);
  }
}

TEST_CASE("what is made again has the FLOPs of forward, not of backward") {
  const Device meta = Device::meta();
  memory::AccountScope scope(fresh_account(meta));
  Tensor x = zeros({4, 32}, {.device = meta}).set_requires_grad();
  Tensor w = zeros({1, 32}, {.device = meta}).set_requires_grad();
  TraceRecorder recorder(memory::account(meta));
  Tensor y = checkpoint([&](Tensor t) { return weigh(weigh(std::move(t), w), w); }, x);
  backward(y, {.grad = full({4, 32}, 1, {.device = meta})});
  std::map<memory::Phase, std::vector<double>> flops;
  for (const memory::TraceOp& op : recorder.take().ops)
    if (op.origin.op == "weigh") flops[op.origin.phase].push_back(op.flops);
  CHECK(flops[memory::Phase::forward] == std::vector<double>{256, 256});
  CHECK(flops[memory::Phase::recompute] == std::vector<double>{256});
  CHECK(flops[memory::Phase::backward] == std::vector<double>{512, 512});
}

TEST_CASE("kernels outside of ops within a step are its update, and sections know their step") {
  memory::AccountScope scope(fresh_account(Device::meta()));
  auto account = memory::account(Device::meta());
  TensorOptions options{.device = Device::meta()};
  TraceRecorder recorder(account);
  Tensor x = zeros({8}, options);
  for (int step = 0; step < 2; ++step) {
    account->begin_step();
    fill(x, 1);
    {
      memory::SectionScope section(account, {memory::SectionKind::first_micro_step, 8});
      Tensor y = zeros({8}, options);
    }
    {
      memory::SectionScope section(account, {memory::SectionKind::update});
      accumulate_into(x, ones({8}, options));
    }
    account->end_step();
  }
  memory::SectionScope section(account, {memory::SectionKind::evaluation, 3});
  memory::Trace trace = recorder.take();
  using enum memory::Phase;
  std::vector<memory::Phase> phases;
  for (const memory::TraceOp& op : trace.ops) phases.push_back(op.origin.phase);
  CHECK(phases == std::vector{other, update, other, update, update, update, other, update, update});
  CHECK(trace.ops[1].origin.op == "fill");
  CHECK(trace.ops[4].origin.op == "accumulate");
  CHECK(trace.ops[4].inputs == Numbers{2, 0});
  CHECK(trace.ops[4].outputs == Numbers{0});
  CHECK(trace.buffers[1].origin.phase == other);
  CHECK(trace.buffers[2].origin.phase == update);

  const std::vector<memory::TraceSection> expected{
      {{memory::SectionKind::first_micro_step, 8}, 1, 2, 0},
      {{memory::SectionKind::update}, 2, 3, 0},
      {{memory::SectionKind::first_micro_step, 8}, 3, 4, 1},
      {{memory::SectionKind::update}, 4, 5, 1},
      {{memory::SectionKind::evaluation, 3}, 5, 5, -1}};
  REQUIRE(trace.sections.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(trace.sections[i].section == expected[i].section);
    CHECK(trace.sections[i].begin == expected[i].begin);
    CHECK(trace.sections[i].end == expected[i].end);
    CHECK(trace.sections[i].step == expected[i].step);
  }
}

TEST_CASE("a view is the buffer that it lies in, and no buffer is touched beyond its end") {
  memory::AccountScope scope(fresh_account(Device::meta()));
  TensorOptions options{.device = Device::meta()};
  Tensor held_before = empty({1024}, options);
  TraceRecorder recorder(memory::account(Device::meta()));
  Tensor a = empty({16}, options), b = empty({16}, options);
  Tensor last(b.storage(), {{1}, {1}, 15, Dtype::float32});
  Tensor row(a.storage(), {{8, 16}, {0, 1}, 0, Dtype::float32});  // one row, eight times
  copy_into(empty({8, 16}, options), row);
  fill(last, 1);
  fill(Tensor(b.storage(), {{0}, {1}, 16, Dtype::float32}), 1);  // nothing, at the end of b
  memory::Trace trace = recorder.take();
  REQUIRE(trace.ops.size() == 3);
  CHECK(trace.ops[0].inputs == Numbers{1});
  CHECK(trace.ops[0].outputs == Numbers{3});
  CHECK(trace.ops[0].bytes_moved == 64 + 512);
  CHECK(trace.ops[1].outputs == Numbers{2});
  CHECK(trace.ops[1].bytes_moved == 4);
  CHECK(trace.ops[2].outputs == Numbers{});
}

TEST_CASE("on a real device ops have times, one after the other") {
  memory::AccountScope scope(fresh_account(Device::cpu()));
  Program program(Device::cpu());
  TraceRecorder recorder(memory::account(Device::cpu()));
  program.run();
  memory::Trace trace = recorder.take();
  double before = 0;
  for (const memory::TraceOp& op : trace.ops) {
    CHECK(op.begin_seconds >= before);
    CHECK(op.end_seconds >= op.begin_seconds);
    before = op.end_seconds;
  }
  CHECK(before > 0);
}

TEST_CASE("a recording ends when it is taken or destroyed") {
  memory::AccountScope scope(fresh_account(Device::meta()));
  Program program(Device::meta());
  { TraceRecorder dropped(memory::account(Device::meta())); }
  TraceRecorder recorder(memory::account(Device::meta()));
  CHECK(recorder.take().buffers.size() == 2);
  program.run();
  CHECK_THROWS_AS(recorder.take(), InternalError);
}
