#include "brim/examples/support/train_plan.h"

#include "brim/base/bytes.h"
#include "brim/examples/support/program.h"

namespace brim::examples {
namespace {

data::DeviceBatch meta_batch(const TrainFlags& flags, int64_t batch) {
  memory::CategoryScope category(memory::Category::input);
  return {
      empty({batch, flags.size, flags.size, 3}, {.dtype = Dtype::uint8, .device = Device::meta()}),
      empty({batch}, {.dtype = Dtype::int64, .device = Device::meta()})};
}

Tensor logits_of(nn::Module& model, Tensor images, const InputOptions& input) {
  return model(prepare_input(std::move(images), input));
}

}  // namespace

StepMemory predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  return measure_on_meta(flags.planner, [&](const std::function<void()>& state_is_held) {
    InputOptions input = data.input;
    input.device = Device::meta();
    auto model = nn::make_model(flags.model, model_options(flags, data, Device::meta()));
    auto optimizer = make_optimizer(flags, *model);
    TrainStep step(*model, *optimizer);
    state_is_held();
    for (int i = 0; i < 2; ++i)
      step.run(0.1, [&] {
        auto [images, labels] = meta_batch(flags, batch);
        return cross_entropy(logits_of(*model, std::move(images), input), std::move(labels),
                             {.label_smoothing = flags.label_smoothing});
      });
    if (data.validation == nullptr) return;
    model->eval();
    autograd::NoGradScope no_grad;
    auto [images, labels] = meta_batch(flags, batch);
    cross_entropy(logits_of(*model, std::move(images), input), std::move(labels));
  });
}

void refuse_if_over_budget(const TrainFlags& flags, const TrainData& data, Events& events) {
  if (flags.budget == 0) return;
  StepMemory need = predict_memory(flags, data, flags.batch);
  if (need.peak_reserved <= flags.budget) return;
  StepMemory least = predict_memory(flags, data, 2);  // batch norm wants two values per channel
  Json fits = Json::array();
  for (int64_t batch = flags.batch / 2; batch >= 2; batch /= 2) {
    StepMemory smaller = predict_memory(flags, data, batch);
    if (smaller.peak_reserved > flags.budget) continue;
    fits.push_back({{"remedy", fmt::format("batch {}", batch)},
                    {"predicted_peak_bytes", smaller.peak_reserved}});
    break;
  }
  events.write({{"event", "refused"},
                {"needed_bytes", need.peak_reserved},
                {"budget_bytes", flags.budget},
                {"least_possible_bytes", least.peak_reserved},
                {"fits", fits}});
  std::string why =
      need.state > flags.budget
          ? fmt::format("parameters, buffers and optimizer state alone take {} ({} bytes)",
                        format_bytes(need.state), need.state)
          : fmt::format("a step at batch {} takes {} ({} bytes)", flags.batch,
                        format_bytes(need.peak_reserved), need.peak_reserved);
  std::string remedy = fits.empty()
                           ? "; no smaller batch fits either"
                           : fmt::format("; {} fits", fits[0]["remedy"].get<std::string>());
  throw DoesNotFit{fmt::format("{} does not fit the budget of {} ({} bytes): {}{}", flags.model,
                               format_bytes(flags.budget), flags.budget, why, remedy)};
}

}  // namespace brim::examples
