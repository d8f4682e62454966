#include "brim/shrink/residual_blocks.h"

#include <algorithm>
#include <set>

#include "brim/nn/eval_scope.h"
#include "brim/nn/meta_run.h"
#include "brim/shrink/channel_tracer.h"
#include "brim/shrink/named_parts.h"

namespace brim::shrink {
namespace {

using Bodies = std::set<const TensorBody*>;

/// One op of the forward pass.
struct Call {
  std::string module, op;
  Tensors inputs, outputs;  // held, so that no other tensor gets the address of one
};

class Calls final : public autograd::OpObserver {
 public:
  std::vector<Call> all;

  void ran(const autograd::OpEvent& event) override {
    const auto visible = event.outputs.begin() + event.op.visible_outputs();
    Call& call =
        all.emplace_back(Call{event.module, event.op.name(), {}, {event.outputs.begin(), visible}});
    std::ranges::copy_if(event.inputs, std::back_inserter(call.inputs),
                         [](const Tensor& input) { return input.defined(); });
  }
};

/// What a module takes from the rest of the model, and what it gives to it.
struct Borders {
  std::vector<Tensor> inputs, outputs;
  bool shares_leaves = false;  // with the rest of the model
};

class Finder {
 public:
  Finder(nn::Module& model, const std::vector<Call>& calls, const Tensor& result,
         ChannelTracer& tracer)
      : calls_(calls), result_(result), tracer_(tracer) {
    model.for_each_slot([&](const std::string&, const nn::Module::Slot& slot) {
      leaves_.insert(slot.tensor->body());
    });
  }

  bool is_residual(const std::string& module) const {
    const Borders borders = borders_of(module);
    if (borders.shares_leaves || borders.inputs.size() != 1 || borders.outputs.size() != 1)
      return false;
    const Tensor &x = borders.inputs.front(), &y = borders.outputs.front();
    return x.shape() == y.shape() && adds_to(x, module) && has_same_channels(x, y);
  }

 private:
  Borders borders_of(const std::string& module) const {
    Bodies inside, outside, used;  // made in the module; read outside of it; read inside
    for (const Call& call : calls_)
      for (const Tensor& input : call.inputs)
        (is_in(call, module) ? used : outside).insert(input.body());
    outside.insert(result_.body());
    Borders borders;
    for (const Call& call : calls_) {
      if (!is_in(call, module)) continue;
      for (const Tensor& input : call.inputs)
        if (!leaves_.contains(input.body()) && inside.insert(input.body()).second)
          borders.inputs.push_back(input);
      for (const Tensor& output : call.outputs) {
        inside.insert(output.body());
        if (outside.contains(output.body())) borders.outputs.push_back(output);
      }
    }
    borders.shares_leaves = std::ranges::any_of(used, [&](const TensorBody* body) {
      return leaves_.contains(body) && outside.contains(body);
    });
    return borders;
  }

  static bool is_in(const Call& call, const std::string& module) {
    return nn::is_at_or_below(call.module, module);
  }

  // Is there a sum of x and another result of its shape?
  bool adds_to(const Tensor& x, const std::string& module) const {
    return std::ranges::any_of(calls_, [&](const Call& call) {
      const auto is_x = [&](const Tensor& input) { return input.body() == x.body(); };
      const auto is_other = [&](const Tensor& input) {
        return !is_x(input) && !leaves_.contains(input.body()) && input.shape() == x.shape();
      };
      const bool is_sum = call.op == "add" || call.op == "batch_norm";  // the latter of a residual
      return is_sum && is_in(call, module) && std::ranges::any_of(call.inputs, is_x) &&
             std::ranges::any_of(call.inputs, is_other);
    });
  }

  bool has_same_channels(const Tensor& x, const Tensor& y) const {
    const ChannelLabels of_x = tracer_.labels_of(x), of_y = tracer_.labels_of(y);
    if (of_x.shape != of_y.shape) return false;
    return std::ranges::equal(of_x.ids, of_y.ids, [&](int64_t a, int64_t b) {
      const int64_t set = tracer_.sets().find(a);
      return set != ChannelSets::kFixed && set == tracer_.sets().find(b);
    });
  }

  const std::vector<Call>& calls_;
  Tensor result_;
  ChannelTracer& tracer_;
  Bodies leaves_;
};

bool is_near(const std::string& module, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return nn::is_at_or_below(module, name) || nn::is_at_or_below(name, module);
  });
}

}  // namespace

std::vector<std::string> residual_blocks(nn::Module& model, const Shape& input,
                                         const ChannelGroupOptions& options) {
  nn::EvalScope eval(model);
  nn::MetaRun run(model);
  require_parts(model, options.exclude, "prune");
  ChannelTracer tracer(model, {});  // which channel is which, whether or not it may go
  Calls calls;
  const Tensor result = run.forward(input);
  tracer.finish(result);
  const Finder finder(model, calls.all, result, tracer);
  std::vector<std::string> blocks;
  for (const nn::NamedModule& part : model.named_modules()) {
    if (part.name.empty() || is_near(part.name, options.exclude) || !finder.is_residual(part.name))
      continue;
    // Those that it is in were found before it.
    std::erase_if(blocks,
                  [&](const std::string& outer) { return nn::is_at_or_below(part.name, outer); });
    blocks.push_back(part.name);
  }
  return blocks;
}

}  // namespace brim::shrink
