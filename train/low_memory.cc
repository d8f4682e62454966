#include "brim/train/low_memory.h"

#include <algorithm>

#include "brim/memory/direct_planner.h"
#include "brim/memory/staging_scope.h"

namespace brim {
namespace {

/// An account for what is made only to be asked.
std::shared_ptr<memory::Account> separate_account() {
  return std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(memory::Source::kUnlimited),
      memory::direct_planner);
}

bool any_low(const std::vector<nn::NamedTensor>& tensors) {
  return std::ranges::any_of(
      tensors, [](const nn::NamedTensor& one) { return is_low_precision(one.tensor.dtype()); });
}

}  // namespace

KeptTypes kept_types(const RehearsalOptions& rehearsal) {
  memory::AccountScope scope(separate_account());
  const std::shared_ptr<nn::Module> model = model_on_meta(rehearsal);
  const Updating updating = rehearsal.make_updating(*model);
  const optim::Optimizer& optimizer = *updating.optimizer;
  KeptTypes types{.low_parameters = any_low(model->named_parameters()),
                  .has_averages = updating.ema != nullptr};
  const auto low = optimizer.like(optimizer.parameters(), Dtype::bfloat16);
  if (low != nullptr && any_low(low->named_state()))
    types.low_state = any_low(optimizer.named_state());
  return types;
}

RehearsalOptions with_low_state(RehearsalOptions rehearsal) {
  rehearsal.make_updating = [make = std::move(rehearsal.make_updating)](nn::Module& model) {
    // The wide one is charged to nobody, on the meta device or on the CPU.
    std::optional<memory::AccountScope> scope(std::in_place, separate_account());
    std::optional<memory::StagingScope> staging(std::in_place);
    Updating updating = make(model);
    const std::unique_ptr<optim::Optimizer> wide = std::move(updating.optimizer);
    staging.reset();
    scope.reset();
    updating.optimizer = wide->like(wide->parameters(), Dtype::bfloat16);
    if (updating.ema != nullptr)
      updating.ema = std::make_unique<optim::Ema>(model, updating.ema->options());
    return updating;
  };
  return rehearsal;
}

RehearsalOptions with_low_parameters(RehearsalOptions rehearsal) {
  rehearsal.parameters = Dtype::bfloat16;
  rehearsal.trainer.precision = Dtype::bfloat16;
  return rehearsal;
}

}  // namespace brim
