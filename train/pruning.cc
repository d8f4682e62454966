#include "brim/train/pruning.h"

#include <algorithm>
#include <utility>

namespace brim {
namespace {

PruningOptions completed(PruningOptions options, const nn::Module& model, const Shape& input) {
  options.schedule.validate();
  if (options.channels.first_shapes.empty())
    options.channels.first_shapes = nn::tensor_shapes(model);
  if (!options.cost) options.cost = shrink::flops_of(input);
  return options;
}

double cost_now(nn::Module& model, const shrink::Cost& cost) {
  nn::MetaScope on_meta(model);
  return cost(model);
}

}  // namespace

Pruning::Pruning(nn::Module& model, const Shape& input, const PruningOptions& options)
    : model_(model), input_(input), options_(completed(options, model, input)) {
  const double now = cost_now(model, options_.cost);
  before_ = options_.before.value_or(now);
  // Scores do not matter to what is possible, and may want gradients.
  shrink::PruneOptions any = options_.channels;
  any.criterion = shrink::Criterion::random;
  const double share = options_.schedule.target * before_ / now;
  if (share < 1) shrink::Pruner(model, input, any).to(share, options_.cost);
}

std::optional<shrink::PruningPlan> Pruning::plan(int64_t updates) const {
  const double wanted = options_.schedule.at(updates).value() * before_;
  const double now = cost_now(model_, options_.cost);
  if (now <= wanted) return {};
  return shrink::Pruner(model_, input_, options_.channels).to(wanted / now, options_.cost);
}

PruneReport Pruning::report(int64_t updates, const shrink::PruningPlan& plan) const {
  return {.step = updates,
          .cost = plan.after,
          .before = before_,
          .removed = plan.removed,
          .parameters = model_.parameter_count()};
}

std::vector<nn::NamedTensor> state_of(const optim::Optimizer& optimizer, const optim::Ema* ema) {
  std::vector<nn::NamedTensor> state = optimizer.named_state();
  if (ema != nullptr) std::ranges::copy(ema->named_state(), std::back_inserter(state));
  return state;
}

}  // namespace brim
