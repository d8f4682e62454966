#include "brim/budget/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "brim/core/transfer.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/source.h"
#include "brim/memory/staging_scope.h"
#include "brim/nn/creation.h"
#include "brim/nn/init.h"
#include "brim/train/parts.h"
#include "brim/train/run_update.h"

namespace brim {
namespace {

constexpr const char* kTag = "training";

void require_same_model(const std::vector<std::string>& before, const nn::Module& made) {
  const std::vector<std::string> now = tensors_of(made);
  for (size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
    const std::string was = i < before.size() ? before[i] : "nothing more",
                      is = i < now.size() ? now[i] : "nothing more";
    expect<ValueError>(was == is, kTag,
                       "the recipe makes another model than when it was planned: {}, where there "
                       "was {}",
                       is, was);
  }
}

/// On the account in force, but for what it takes to find values.
void give_values(const Recipe& recipe, nn::Module& model) {
  if (recipe.values) {
    memory::StagingScope not_counted;
    recipe.values(model);
  }
  const std::vector<nn::NamedTensor> parameters = model.named_parameters();
  if (model.has_all_values()) return;
  const bool has_some = std::ranges::any_of(
      parameters, [](const nn::NamedTensor& named) { return nn::has_values(named.tensor); });
  // Where some were given, initial values would overwrite them.
  if (has_some) model.require_values();
  nn::initialize(model, recipe.seed);
}

}  // namespace

std::vector<std::string> tensors_of(const nn::Module& model) {
  std::vector<std::string> tensors;
  for (const auto& [name, tensor] : model.named_parameters())
    tensors.push_back(fmt::format("parameter {} {}", name, to_string(tensor.shape())));
  for (const auto& [name, tensor] : model.named_buffers())
    tensors.push_back(fmt::format("buffer {} {}", name, to_string(tensor.shape())));
  return tensors;
}

Batch make_batch(const Recipe& recipe, const Part& part, Device device, const HostExamples* from) {
  memory::CategoryScope category(memory::Category::input);
  memory::SiteScope site({.op = "batch"});
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < recipe.batch.size(); ++i) {
    const BatchTensor& described = recipe.batch[i];
    Shape shape{part.count};
    for (const int64_t size : described.shape) shape.push_back(size);
    tensors.push_back(empty(shape, {.dtype = described.dtype, .device = device}));
    if (from != nullptr)
      copy_from_host(tensors.back(),
                     from->tensors[i].data() + part.first * described.example_bytes());
  }
  return {recipe.batch, std::move(tensors)};
}

struct Training::Parts {
  Parts(std::shared_ptr<const Recipe> recipe, const RehearsalOptions& rehearsal,
        std::shared_ptr<memory::Account> account)
      : recipe(std::move(recipe)), rehearsal(rehearsal), account(std::move(account)) {}

  const std::shared_ptr<const Recipe> recipe;
  const RehearsalOptions rehearsal;
  const std::shared_ptr<memory::Account> account;
  std::shared_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<TrainStep> step;
};

Training::Training(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Training::~Training() = default;
Training::Training(Training&&) noexcept = default;

Training Training::make(std::shared_ptr<const Recipe> recipe, const RehearsalOptions& rehearsal,
                        std::shared_ptr<const memory::Plan> plan, int64_t bytes,
                        const std::vector<std::string>& planned) {
  const Device device = Device::cpu();
  auto account = std::make_shared<memory::Account>(
      device, std::make_unique<memory::HostSource>(bytes), memory::arena_planner(std::move(plan)));
  auto parts = std::make_unique<Parts>(std::move(recipe), rehearsal, std::move(account));
  memory::AccountScope scope(parts->account);
  {
    nn::CreationScope on_device({.dtype = rehearsal.parameters, .device = device});
    parts->model = make_model(*parts->recipe);
  }
  if (is_low_precision(rehearsal.parameters)) parts->model->to(rehearsal.parameters);
  require_same_model(planned, *parts->model);
  give_values(*parts->recipe, *parts->model);
  parts->optimizer = make_optimizer(*parts->recipe, *parts->model);
  parts->step.emplace(*parts->model, *parts->optimizer, step_options(rehearsal.trainer, nullptr));
  return Training(std::move(parts));
}

double Training::update(const HostExamples& batch, double rate) {
  const RehearsalOptions& planned = parts_->rehearsal;
  const std::vector<BatchTensor>& described = parts_->recipe->batch;
  const int64_t all = planned.update_images();
  expect<ValueError>(batch.examples == all, kTag, "expected the {} examples of an update, got {}",
                     all, batch.examples);
  expect<ValueError>(batch.tensors.size() == described.size(), kTag,
                     "expected the recipe's {} tensors, got {}", described.size(),
                     batch.tensors.size());
  for (size_t i = 0; i < described.size(); ++i)
    expect<ValueError>(
        static_cast<int64_t>(batch.tensors[i].size()) == all * described[i].example_bytes(), kTag,
        "expected {} bytes of '{}' for {} examples, got {}", all * described[i].example_bytes(),
        described[i].name, all, batch.tensors[i].size());

  auto loss_of = [&](const Part& part) {
    return [this, &batch, part] {
      return parts_->recipe->loss(*parts_->model,
                                  make_batch(*parts_->recipe, part, Device::cpu(), &batch));
    };
  };
  auto options_of = [&](const Part& part) {
    return MicroStepOptions{.weight = static_cast<double>(part.count) / static_cast<double>(all),
                            .first_sample = static_cast<uint64_t>(part.first),
                            .samples = part.count,
                            .update_samples = all,
                            .factors = takes_factors(planned.trainer, planned.batch, all)};
  };
  memory::AccountScope scope(parts_->account);
  double loss = 0;
  run_update(*parts_->step, rate, parts_of(all, planned.batch), loss_of, options_of,
             [&](const Part& part, double mean) { loss += options_of(part).weight * mean; });
  return loss;
}

nn::Module& Training::model() { return *parts_->model; }
optim::Optimizer& Training::optimizer() { return *parts_->optimizer; }
TrainStep& Training::step() { return *parts_->step; }
const std::shared_ptr<memory::Account>& Training::account() const { return parts_->account; }

}  // namespace brim
