#include "brim/tests/support/checker.h"

#include <algorithm>
#include <cstdlib>

#include "brim/memory/cuda_source.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/conversions.h"
#include "brim/tests/support/differences.h"
#include "brim/tests/support/execution.h"
#include "brim/tests/support/layouts.h"
#include "brim/tests/support/non_finite.h"
#include "brim/tests/support/replay.h"
#include "brim/tests/support/thread_orders.h"
#include "brim/tests/support/tolerance.h"

namespace brim::testing {
namespace {

/// Counts the ops of a phase.
class OpCounter final : public autograd::OpObserver {
 public:
  void ran(const autograd::OpEvent& event) override {
    ++(event.phase == autograd::Phase::forward ? forward : backward);
  }
  int forward = 0, backward = 0;
};

/// The same values: between an op and the harness, it makes the op own its gradient.
class CopyOp final : public autograd::Op {
 public:
  const char* name() const override { return "copy"; }
  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    return {clone(in[0])};
  }
  Tensors backward(autograd::BackwardCall& call) const override { return {clone(call.grad())}; }
};

/// One sample in one dtype.
class Checker {
 public:
  Checker(const OpSpec& spec, const OpSample& sample, Dtype dtype, std::vector<std::string>& faults)
      : spec_(spec), sample_(sample), dtype_(dtype), faults_(faults) {}

  void run() {
    if (!step("conversion of inputs", [&] {
          inputs_ =
              converted(sample_.inputs, [&](size_t i) { return dtype_for(sample_, i, dtype_); });
        }))
      return;
    if (!step("the op", [&] { check_run(); })) return;
    step("the reference", [&] { check_reference(); });
    step("gradients", [&] { check_gradients(); });
    step("differences", [&] { check_differences(); });
    step("gradient mode off", [&] { check_no_grad(); });
    step("meta device", [&] { check_meta(); });
    step("replay", [&] { check_replay(); });
    step("layouts", [&] { check_layouts(); });
    step("refused requests", [&] { check_refusals(); });
    step("empty batch", [&] { check_empty_batch(); });
    step("what is not finite", [&] { check_non_finite(); });
  }

  /// The same op on a GPU; values against the CPU's reference. The order of threads has no say, nor
  /// has the layout of inputs; a batch of none works there too.
  void run_on(Device device) {
    device_ = device;
    step("inputs", [&] {
      inputs_ = converted(sample_.inputs, [&](size_t i) { return dtype_for(sample_, i, dtype_); });
    });
    step(to_string(device).c_str(), [&] {
      // Each buffer an allocation of its own: what lies beyond it is nobody's.
      memory::AccountScope apart(std::make_shared<memory::Account>(
          device, memory::cuda_source(device), memory::planner_named("direct")));
      first_ = execute_on_device(on_device(inputs_, device_));
      check_reference();
      check_gradients();
      for (const auto& [name, run_so] : other_thread_orders())
        run_so(
            [&, name = name] { same_bits(name, execute_on_device(on_device(inputs_, device_))); });
      check_empty_batch();
      check_non_finite();
      check_layouts_there();
    });
  }

 private:
  template <class Check>
  bool step(const char* what, const Check& check) {
    try {
      check();
      return true;
    } catch (const std::exception& error) {
      fault("{} throws: {}", what, error.what());
      return false;
    }
  }
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format("{}, sample '{}', {}: {}", spec_.op, sample_.name,
                                  to_string(dtype_),
                                  fmt::format(format, std::forward<Args>(args)...)));
  }
  void same_bits(const char* when, const Execution& got, bool with_grads = true) {
    if (got.outputs.size() != first_.outputs.size())
      return fault("{}: {} outputs, expected {}", when, got.outputs.size(), first_.outputs.size());
    for (size_t k = 0; k < got.outputs.size(); ++k)
      if (auto text = bit_difference(got.outputs[k], first_.outputs[k]); !text.empty())
        fault("{}: output {} differs: {}", when, k, text);
    if (!with_grads) return;
    for (size_t i = 0; i < got.grads.size(); ++i)
      if (auto text = bit_difference(got.grads[i], first_.grads[i]); !text.empty())
        fault("{}: gradient of input {} differs: {}", when, i, text);
  }
  // Of inputs that are there; what comes out is back on the CPU.
  Execution execute_on_device(const Tensors& inputs) {
    OpCounter counter;
    Execution there = execute(sample_, inputs);
    count(counter);
    return {on_device(there.outputs, Device::cpu()), on_device(there.weights, Device::cpu()),
            on_device(there.grads, Device::cpu())};
  }
  void count(const OpCounter& counter) {
    forward_ops_ = std::max(counter.forward, 1);
    ops_ = forward_ops_ + counter.backward;
  }

  void check_run() {
    std::vector<Values> before = values_of(inputs_);
    OpCounter counter;
    Isolated first = execute_isolated(sample_, inputs_, Device::cpu(), Ledger::kNan);
    count(counter);
    first_ = first.execution;
    if (first.held != 0) fault("{} bytes are held after everything was dropped", first.held);
    Tensors now = inputs_;
    for (size_t i = 0; i < before.size(); ++i)
      if (now[i].defined() && worst_error(now[i], before[i], Values(before[i].size(), 0.0)) != "")
        fault("input {} was overwritten", i);
    check_incoming_gradients();
    Isolated second = execute_isolated(sample_, inputs_, Device::cpu(), Ledger::kNumber);
    same_bits("a second run with other values in fresh memory", second.execution);
    cpu_ = std::move(first);
  }

  // Backward may overwrite a gradient when nobody else holds it, and only then.
  void check_incoming_gradients() {
    Tensors given, expected;
    for (size_t k = 0; k < first_.weights.size(); ++k)
      for (Tensors* weights : {&given, &expected})
        weights->push_back(first_.weights[k].defined() ? weights_for(first_.outputs[k], k)
                                                       : Tensor());
    execute(sample_, inputs_, given);
    for (size_t k = 0; k < given.size(); ++k)
      if (auto text = bit_difference(given[k], expected[k]); !text.empty())
        fault("the gradient given for output {} was overwritten: {}", k, text);
    OpSample owned = sample_;
    owned.run = [this](const Tensors& inputs) {
      Tensors outputs = sample_.run(inputs);
      for (Tensor& output : outputs)
        if (output.defined() && output.requires_grad())
          output = autograd::apply_one(std::make_shared<CopyOp>(), {output}, Where::current());
      return outputs;
    };
    same_bits("incoming gradients that nobody else holds", execute(owned, inputs_));
  }

  void check_reference() {
    Evaluate reference = [&](const Tensors& inputs) {
      return values_of(sample_.reference(inputs));
    };
    Tensors doubles = in_double(inputs_), expected = sample_.reference(doubles);
    if (expected.size() != first_.outputs.size())
      return fault("{} outputs, the reference has {}", first_.outputs.size(), expected.size());
    std::vector<Values> values = values_of(expected);
    auto sizes = sensitivities(reference, doubles, values, probe_step(dtype_));
    for (size_t k = 0; k < expected.size(); ++k) {
      const Tensor& got = first_.outputs[k];
      if (got.shape() != expected[k].shape()) {
        fault("output {} has shape {}, the reference {}", k, to_string(got.shape()),
              to_string(expected[k].shape()));
        continue;
      }
      ErrorModel model{dtype_, got.dtype(), sample_.reduction, forward_ops_, sample_.magnitude};
      if (auto text = worst_error(got, values[k], allowances(model, values[k], sizes[k]));
          text != "")
        fault("output {} is off: {}", k, text);
    }
  }

  // Gradients in float64 at inputs and incoming gradients of the values that the dtype has.
  std::vector<Values> double_gradients(const Tensors& all) {
    auto inputs = static_cast<std::ptrdiff_t>(inputs_.size());
    Tensors weights(all.begin() + inputs, all.end());
    Execution run =
        execute(sample_, Tensors(all.begin(), all.begin() + inputs), in_double(weights));
    return values_of(run.grads);
  }

  void check_gradients() {
    if (!sample_.differentiable) return;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& grad = first_.grads[i];
      if (!wants_grad(sample_, i)) continue;
      if (!grad.defined()) {
        fault("input {} got no gradient", i);
      } else if (grad.dtype() != inputs_[i].dtype() || grad.shape() != inputs_[i].shape()) {
        fault("the gradient of input {} is {} {}, the input {} {}", i, to_string(grad.dtype()),
              to_string(grad.shape()), to_string(inputs_[i].dtype()),
              to_string(inputs_[i].shape()));
      }
    }
    if (dtype_ == Dtype::float64 && device_.is_cpu()) return;  // differences tell more
    compare_gradients();
  }

  void compare_gradients() {
    Tensors all = in_double(inputs_);
    for (const Tensor& weights : first_.weights)
      all.push_back(weights.defined() ? convert_to(weights, {.dtype = Dtype::float64}) : weights);
    std::vector<Values> expected = double_gradients(all);
    auto sizes = sensitivities([&](const Tensors& at) { return double_gradients(at); }, all,
                               expected, probe_step(dtype_));
    int64_t n = sample_.backward_reduction != 0 ? sample_.backward_reduction : sample_.reduction;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& grad = first_.grads[i];
      if (!grad.defined() || expected[i].size() != static_cast<size_t>(grad.numel())) continue;
      ErrorModel model{dtype_, grad.dtype(), std::max(n, sample_.reduction), ops_,
                       sample_.magnitude};
      if (auto text = worst_error(grad, expected[i], allowances(model, expected[i], sizes[i]));
          !text.empty())
        fault("the gradient of input {} is off from that in float64: {}", i, text);
    }
  }

  void check_differences() {
    if (dtype_ != Dtype::float64 || !sample_.differentiable || !sample_.numeric) return;
    if (auto text = difference_fault(sample_, inputs_, first_); !text.empty())
      fault("the gradient is wrong: {}", text);
  }

  void check_no_grad() {
    autograd::NoGradScope no_grad;
    same_bits("with gradients off", {sample_.run(inputs_), {}, {}}, /*with_grads=*/false);
  }

  void check_meta() {
    Tensors inputs = on_device(inputs_, Device::meta());
    {
      autograd::NoGradScope no_grad;  // by itself first: a wrong shape also breaks backward
      if (!compare_meta("output", sample_.run(inputs), first_.outputs)) return;
    }
    Isolated meta = execute_isolated(sample_, inputs, Device::meta());
    compare_meta("output", meta.execution.outputs, first_.outputs);
    compare_meta("gradient", meta.execution.grads, first_.grads);
    compare_ledgers(meta);
  }

  bool compare_meta(const char* what, const Tensors& got, const Tensors& real) {
    auto describe = [](const Tensor& tensor) {
      return tensor.defined() ? fmt::format("{} {} on {}", to_string(tensor.dtype()),
                                            to_string(tensor.shape()), to_string(tensor.device()))
                              : std::string("undefined");
    };
    bool same_all = got.size() == real.size();
    if (!same_all) fault("meta device: {} {}s, real run {}", got.size(), what, real.size());
    for (size_t k = 0; k < std::min(got.size(), real.size()); ++k) {
      bool same = got[k].defined() == real[k].defined();
      if (same && got[k].defined())
        same = got[k].device().is_meta() && got[k].shape() == real[k].shape() &&
               got[k].dtype() == real[k].dtype();
      if (!same)
        fault("meta device: {} {} is {}, in the real run {}", what, k, describe(got[k]),
              describe(real[k]));
      same_all &= same;
    }
    return same_all;
  }

  void compare_ledgers(const Isolated& meta) {
    auto describe = [](const std::vector<LedgerEntry>& ledger, size_t at) {
      if (at >= ledger.size()) return std::string("nothing");
      return fmt::format("{} {} bytes ({})", ledger[at].bytes < 0 ? "release" : "request",
                         std::abs(ledger[at].bytes), memory::to_string(ledger[at].category));
    };
    size_t at = 0, most = std::max(meta.ledger.size(), cpu_.ledger.size());
    while (at < most && at < meta.ledger.size() && at < cpu_.ledger.size() &&
           meta.ledger[at] == cpu_.ledger[at])
      ++at;
    if (at < most)
      fault("meta device: account entry {} is {}, in the real run {}", at,
            describe(meta.ledger, at), describe(cpu_.ledger, at));
    else if (meta.peak_live != cpu_.peak_live)
      fault("meta device: peak of {} live bytes, in the real run {}", meta.peak_live,
            cpu_.peak_live);
    if (meta.held != 0) fault("meta device: {} bytes are held after the run", meta.held);
  }

  void check_replay() {
    for (bool with_grad : {true, false}) {
      autograd::GradModeScope mode(with_grad);
      Sandbox sandbox(Device::cpu());
      ReplayObserver observer(sandbox.ledger());
      execute(sample_, inputs_);
      for (const std::string& text : observer.faults()) fault("{}", text);
    }
  }

  void check_layouts() {
    same_bits("inputs with gaps", execute(sample_, changed(inputs_, gapped)));
    same_bits("inputs transposed in memory", execute(sample_, changed(inputs_, transposed)));
    same_bits("inputs off the 64-byte boundary", execute(sample_, changed(inputs_, shifted)));
    if (inputs_.size() < 2) return;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Tensors inputs = inputs_;
      inputs[i] = gapped(inputs[i]);
      same_bits(fmt::format("input {} with gaps", i).c_str(), execute(sample_, inputs));
    }
  }

  // All inputs at once: on an emulated GPU a run takes its time.
  void check_layouts_there() {
    auto run_with = [&](auto layout) {
      return execute_on_device(changed(on_device(inputs_, device_), layout));
    };
    same_bits("inputs with gaps", run_with(gapped));
    same_bits("inputs transposed in memory", run_with(transposed));
    Execution off_boundary = run_with(shifted);
    if (libraries_see_alignment()) {
      first_ = std::move(off_boundary);
      check_reference();
      return check_gradients();
    }
    same_bits("inputs off the 64-byte boundary", off_boundary);
  }

  // Every request in turn, or a few dozen of them spread over the run.
  void check_refusals() {
    if (dtype_ != spec_.dtypes.front()) return;
    int64_t requests = 0;
    for (const LedgerEntry& entry : cpu_.ledger) requests += entry.bytes > 0;
    for (int64_t n = 1; n <= requests; n += 1 + requests / 40) {
      Sandbox sandbox(Device::cpu());
      sandbox.account().fail_nth(n);
      bool refused = false;
      try {
        execute(sample_, inputs_);
      } catch (const memory::OutOfMemory&) {
        refused = true;
      }
      if (!refused) fault("request {} of {} was refused and nothing was thrown", n, requests);
      if (int64_t live = sandbox.account().stats().live; live != 0)
        fault("{} bytes are held after request {} of {} was refused", live, n, requests);
    }
  }

  void check_non_finite() {
    for (const std::string& text :
         non_finite_faults(spec_, sample_, inputs_, dtype_, device_, forward_ops_))
      fault("{}", text);
  }

  void check_empty_batch() {
    if (sample_.batched.empty()) return;
    Tensors inputs = inputs_;
    for (int i : sample_.batched) {
      Tensor& input = inputs[static_cast<size_t>(i)];
      if (!input.defined()) continue;
      Shape shape = input.shape();
      shape[0] = 0;
      input = empty(shape, {.dtype = input.dtype()});
    }
    Execution run =
        device_.is_cpu() ? execute(sample_, inputs) : execute_on_device(on_device(inputs, device_));
    Tensors expected = sample_.reference(in_double(inputs));
    for (size_t k = 0; k < run.outputs.size(); ++k)
      if (run.outputs[k].shape() != expected[k].shape())
        fault("empty batch: output {} has shape {}, the reference {}", k,
              to_string(run.outputs[k].shape()), to_string(expected[k].shape()));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!wants_grad(sample_, i)) continue;
      if (!run.grads[i].defined()) {
        fault("empty batch: input {} got no gradient", i);
        continue;
      }
      Values zeros(static_cast<size_t>(inputs[i].numel()), 0.0);
      if (auto text = worst_error(run.grads[i], zeros, zeros); !text.empty())
        fault("empty batch: the gradient of input {} is not zero: {}", i, text);
    }
  }

  const OpSpec& spec_;
  const OpSample& sample_;
  Dtype dtype_;
  Device device_ = Device::cpu();
  std::vector<std::string>& faults_;
  Tensors inputs_;
  Execution first_;  // what every other run must equal
  Isolated cpu_;
  int forward_ops_ = 1, ops_ = 1;
};

}  // namespace

void check_sample(const OpSpec& spec, const OpSample& sample, Dtype dtype,
                  std::vector<std::string>& faults) {
  Checker(spec, sample, dtype, faults).run();
}

void check_sample_on(Device device, const OpSpec& spec, const OpSample& sample, Dtype dtype,
                     std::vector<std::string>& faults) {
  Checker(spec, sample, dtype, faults).run_on(device);
}

}  // namespace brim::testing
