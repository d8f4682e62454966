#include "brim/train/measured_ops.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "brim/autograd/node.h"
#include "brim/autograd/save.h"
#include "brim/memory/account.h"

namespace brim {
namespace {

using autograd::TensorInfo;
using memory::Phase;

constexpr int kMostRepeats = 20;  // of calls that end before a clock can tell

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CallTimer {
 public:
  CallTimer(const OpCall& call, const TimingOptions& options)
      : call_(call), options_(options), now_(options.now ? options.now : steady_seconds) {}

  CallSeconds run() {
    for (const TensorInfo& info : call_.inputs) inputs_.push_back(real(info));
    CallSeconds seconds;
    Tensors outputs = call_.op->forward(inputs_, call_.context);
    seconds.forward = seconds_of([&] { return call_.op->forward(inputs_, call_.context); });
    seconds.replay = seconds.forward;
    if (!call_.op->anchors().empty()) {
      const Tensors known = anchors_of(outputs);
      seconds.replay =
          seconds_of([&] { return call_.op->forward_again(inputs_, known, call_.context); });
    }
    if (std::ranges::count(call_.needs, true) > 0) seconds.backward = time_backward(outputs);
    return seconds;
  }

 private:
  // Random, since what is all alike is too easy for branches. Undefined tensors are on no meta
  // device.
  Tensor real(const TensorInfo& info) {
    if (!info.device.is_meta()) return {};
    const TensorOptions options{.dtype = info.dtype, .device = options_.device};
    if (!is_floating(info.dtype)) return zeros(info.shape, options);
    return uniform(info.shape, 0, 1, RandomKey{++key_}, options);
  }

  Tensors anchors_of(const Tensors& outputs) const {
    Tensors known(outputs.size());
    for (int i : call_.op->anchors())
      known[static_cast<size_t>(i)] = outputs[static_cast<size_t>(i)];
    return known;
  }

  // The tape's record of the call, as `apply` would make it.
  std::shared_ptr<autograd::Node> record(const Tensors& outputs) const {
    static const std::string kNoModule;
    auto node = std::make_shared<autograd::Node>();
    for (size_t i = 0; i < inputs_.size(); ++i)
      node->edges.push_back(
          {.leaf = call_.needs[i] ? inputs_[i].shared_body() : std::shared_ptr<TensorBody>()});
    node->op = call_.op;
    node->inputs = autograd::infos_of(inputs_);
    node->outputs = autograd::infos_of(outputs);
    node->values.resize(outputs.size());
    node->context = call_.context;
    node->module = &kNoModule;
    autograd::SavePolicyScope holds_all(nullptr);
    autograd::save(node, inputs_, outputs, call_.op->saves(call_.needs), /*overwritten=*/-1);
    return node;
  }

  double time_backward(Tensors& outputs) {
    const std::shared_ptr<autograd::Node> node = record(outputs);
    Tensors given;
    for (int i = 0; i < call_.op->visible_outputs(); ++i) {
      const Tensor& output = outputs[static_cast<size_t>(i)];
      const bool has_gradient = output.defined() && is_floating(output.dtype());
      given.push_back(has_gradient ? uniform(output.shape(), 0, 1, RandomKey{++key_},
                                             {.dtype = output.dtype(), .device = output.device()})
                                   : Tensor());
    }
    outputs.clear();
    Tensors grads;
    // Backward may write over what it is given.
    auto prepare = [&] {
      grads.clear();
      for (const Tensor& grad : given) grads.push_back(grad.defined() ? clone(grad) : Tensor());
    };
    return seconds_of(
        [&] {
          autograd::BackwardCall backward(*node, grads, /*retain_graph=*/true);
          return call_.op->backward(backward);
        },
        prepare);
  }

  int most_repeats(double sum) const {
    return sum < options_.least_seconds ? std::max(options_.repeats, kMostRepeats)
                                        : options_.repeats;
  }

  template <class Run>
  double seconds_of(const Run& run) const {
    return seconds_of(run, [] {});
  }

  template <class Run, class Prepare>
  double seconds_of(const Run& run, const Prepare& prepare) const {
    std::vector<double> times;
    double sum = 0;
    for (int i = -1; i < most_repeats(sum); ++i) {
      prepare();
      const double start = now_();
      Tensors results = run();
      const double took = now_() - start;
      if (i < 0) continue;  // first touch of fresh memory, code that a library compiles
      times.push_back(took);
      sum += took;
    }
    const auto last = static_cast<double>(times.size() - 1);
    const auto counts = times.begin() + std::lround(options_.quantile * last);
    std::ranges::nth_element(times, counts);
    return *counts;
  }

  const OpCall& call_;
  const TimingOptions& options_;
  std::function<double()> now_;
  uint64_t key_ = 0;
  Tensors inputs_;
};

}  // namespace

CallSeconds time_call(const OpCall& call, const TimingOptions& options) {
  expect<ValueError>(options.repeats >= 1, "op times", "expected 1 repeat or more, got {}",
                     options.repeats);
  expect<ValueError>(options.quantile >= 0 && options.quantile <= 1, "op times",
                     "expected a quantile in [0, 1], got {}", options.quantile);
  auto account = std::make_shared<memory::Account>(
      options.device, std::make_unique<memory::HostSource>(options.capacity),
      memory::planner_named("caching"));
  memory::AccountScope scope(account);
  autograd::NoGradScope no_grad;
  return CallTimer(call, options).run();
}

void MeasuredOps::measure(const std::map<std::string, OpCall>& calls) {
  for (const auto& [key, call] : calls) {
    if (seconds_.contains(key)) continue;
    CallSeconds seconds;
    try {
      seconds = time_call(call, options_);
    } catch (const Error& error) {
      const std::string why = error.what();
      left_out_.push_back(fmt::format("{}: {}", call.op->name(), why.substr(0, why.find('\n'))));
      continue;
    }
    ++timed_;
    seconds_[key] = seconds.backward;
    seconds_.try_emplace(call.key(Phase::forward), seconds.forward);
    seconds_.try_emplace(call.key(Phase::recompute), seconds.replay);
  }
}

std::optional<double> MeasuredOps::seconds(const OpRun& run) const {
  auto found = seconds_.find(run.key);
  if (run.key.empty() || found == seconds_.end()) return {};
  return found->second;
}

}  // namespace brim
