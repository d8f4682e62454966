#include "brim/budget/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "brim/autograd/in_place.h"
#include "brim/autograd/op.h"
#include "brim/core/transfer.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/source.h"
#include "brim/memory/staging_scope.h"
#include "brim/nn/creation.h"
#include "brim/nn/eval_scope.h"
#include "brim/nn/init.h"
#include "brim/train/parts.h"
#include "brim/train/precision_scope.h"
#include "brim/train/run_update.h"

namespace brim {
namespace {

constexpr const char* kTag = "training";

void require_as_described(const std::vector<BatchTensor>& described, const HostExamples& batch) {
  expect<ValueError>(batch.tensors.size() == described.size(), kTag,
                     "expected the recipe's {} tensors, got {}", described.size(),
                     batch.tensors.size());
  for (size_t i = 0; i < described.size(); ++i) {
    const int64_t bytes = batch.examples * described[i].example_bytes();
    expect<ValueError>(static_cast<int64_t>(batch.tensors[i].size()) == bytes, kTag,
                       "expected {} bytes of '{}' for {} examples, got {}", bytes,
                       described[i].name, batch.examples, batch.tensors[i].size());
  }
}

Tensor rows_of(const Tensor& tensor, int64_t first, int64_t count) {
  Layout rows = tensor.layout();
  rows.shape[0] = count;
  rows.offset += first * rows.strides[0];
  return {tensor.storage(), rows};
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

Batch make_batch(const Recipe& recipe, const Part& part, Device device, const HostExamples* from,
                 int64_t padded) {
  memory::CategoryScope category(memory::Category::input);
  memory::SiteScope site({.op = "batch"});
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < recipe.batch.size(); ++i) {
    const BatchTensor& described = recipe.batch[i];
    Shape shape{std::max(part.count, padded)};
    for (const int64_t size : described.shape) shape.push_back(size);
    tensors.push_back(empty(shape, {.dtype = described.dtype, .device = device}));
    if (from == nullptr) continue;
    const std::byte* first = from->tensors[i].data() + part.first * described.example_bytes();
    for (int64_t row = 0; row < shape[0]; row += part.count)
      copy_from_host(rows_of(tensors.back(), row, std::min(part.count, shape[0] - row)), first);
  }
  return {recipe.batch, std::move(tensors)};
}

Tensor score_of(const Recipe& recipe, nn::Module& model, const Batch& batch) {
  autograd::NoGradScope no_grad;
  Tensor score = recipe.score(model, batch);
  expect<ShapeError>(score.shape() == Shape{batch.examples()}, "score",
                     "expected a number for each of {} examples, got {}", batch.examples(),
                     score.shape());
  return score;
}

std::string first_difference(const std::vector<std::string>& before,
                             const std::vector<std::string>& now) {
  for (size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
    const std::string was = i < before.size() ? before[i] : "nothing more",
                      is = i < now.size() ? now[i] : "nothing more";
    if (was != is) return fmt::format("{}, where there was {}", is, was);
  }
  return "";
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
  const std::string difference = first_difference(planned, tensors_of(*parts->model));
  expect<ValueError>(difference.empty(), kTag,
                     "the recipe makes another model than when it was planned: {}", difference);
  give_values(*parts->recipe, *parts->model);
  parts->optimizer = rehearsal.make_updating(*parts->model).optimizer;
  parts->step.emplace(*parts->model, *parts->optimizer, step_options(rehearsal.trainer, nullptr));
  return Training(std::move(parts));
}

double Training::update(const HostExamples& batch, double rate) {
  const RehearsalOptions& planned = parts_->rehearsal;
  const int64_t all = planned.update_images();
  expect<ValueError>(batch.examples == all, kTag, "expected the {} examples of an update, got {}",
                     all, batch.examples);
  require_as_described(parts_->recipe->batch, batch);

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

double Training::evaluate(ExampleSource& source) {
  const Recipe& recipe = *parts_->recipe;
  expect<ValueError>(recipe.score != nullptr, kTag,
                     "the recipe has no score to evaluate; of a classifier it may be "
                     "classification_score");
  memory::AccountScope scope(parts_->account);
  nn::EvalScope eval(*parts_->model);
  double sum = 0;
  int64_t count = 0;
  source.start_epoch(0);
  while (std::optional<HostExamples> batch = source.next()) {
    require_as_described(recipe.batch, *batch);
    for (const Part& part : parts_of(batch->examples, parts_->rehearsal.batch))
      sum += sum_of_scores(part, *batch);
    count += batch->examples;
  }
  expect<ValueError>(count > 0, kTag, "the source has no examples to evaluate");
  return sum / static_cast<double>(count);
}

double Training::sum_of_scores(const Part& part, const HostExamples& batch) {
  const RehearsalOptions& planned = parts_->rehearsal;
  autograd::InPlaceScope in_place(planned.trainer.in_place);
  PrecisionScope precision(planned.trainer.precision);
  memory::SectionScope section(parts_->account, {memory::SectionKind::evaluation, planned.batch});
  const std::vector<double> scores =
      score_of(*parts_->recipe, *parts_->model,
               make_batch(*parts_->recipe, part, Device::cpu(), &batch, planned.batch))
          .to_vector<double>();
  return std::accumulate(scores.begin(), scores.begin() + part.count, 0.0);
}

nn::Module& Training::model() { return *parts_->model; }
optim::Optimizer& Training::optimizer() { return *parts_->optimizer; }
TrainStep& Training::step() { return *parts_->step; }
const std::shared_ptr<memory::Account>& Training::account() const { return parts_->account; }

}  // namespace brim
