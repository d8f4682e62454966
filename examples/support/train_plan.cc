#include "brim/examples/support/train_plan.h"

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/examples/support/program.h"
#include "brim/train/remedies.h"

namespace brim::examples {
namespace {

/// The training program without a byte: the steps and evaluations of `Trainer::run`, on the meta
/// device.
class Rehearsal {
 public:
  Rehearsal(const TrainFlags& flags, const TrainData& data, int64_t batch)
      : flags_(flags),
        data_(data),
        batch_(batch),
        model_(nn::make_model(flags.model, model_options(flags, data, Device::meta()))),
        updating_(make_updating(flags.optimizer, *model_)),
        step_(*model_, *updating_.optimizer,
              {.clip = flags.optimizer.clip, .ema = updating_.ema.get()}),
        options_(trainer_options(flags, data)) {
    options_.input.device = Device::meta();
  }

  // A planner's state settles within a step or two, and within an epoch or two.
  void run() {
    int64_t left = data_.steps(flags_);
    for (int epoch = 0; epoch < 2 && left > 0; ++epoch, left -= data_.batches) {
      for (int64_t i = 0; i < std::min<int64_t>({2, left, data_.batches}); ++i) train();
      if (data_.val_set != nullptr) evaluate(data_.val_set->size());
    }
  }

 private:
  data::DeviceBatch upload(int64_t batch) const {
    return data::empty_batch(batch, flags_.size, Device::meta());
  }
  void train() {
    step_.run(flags_.optimizer.rate,
              [&] { return training_loss(*model_, upload(batch_), options_); });
  }

  void evaluate(int64_t images) {
    model_->eval();
    int64_t batch = std::min(batch_, images);
    for (int64_t i = 0; i < std::min<int64_t>(images / batch, 2); ++i)
      evaluate_batch(*model_, upload(batch), options_.input);
    if (images % batch > 0) evaluate_batch(*model_, upload(images % batch), options_.input);
    model_->train();
  }

  const TrainFlags& flags_;
  const TrainData& data_;
  int64_t batch_;
  std::unique_ptr<nn::Module> model_;
  Updating updating_;
  TrainStep step_;
  TrainerOptions options_;
};

[[noreturn]] void refuse(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
                         Events& events) {
  auto plan = [&](int64_t batch) {
    return batch == flags.batch ? need : prediction_if_any(flags, data, batch);
  };
  SmallerBatch found = find_smaller_batch(plan, flags.batch, flags.limit());
  Json fits = Json::array();
  std::string remedy;
  if (found.fits) {
    std::string batch = fmt::format("batch {}", found.fits->batch);
    fits.push_back({{"remedy", batch},
                    {"predicted_peak_bytes", found.fits->memory.peak_reserved},
                    {"relative_time", 1.0}});
    remedy = fmt::format("; {} fits", batch);
  } else if (found.least.batch < flags.batch) {
    remedy = fmt::format("; batch {} does not fit either", found.least.batch);
  }
  events.write({{"event", "refused"},
                {"needed_bytes", need.peak_reserved},
                {"budget_bytes", flags.limit()},
                {"least_possible_bytes", found.least.memory.peak_reserved},
                {"fits", fits}});
  std::string why =
      need.state > flags.limit()
          ? fmt::format("parameters, buffers and optimizer state alone take {} ({} bytes)",
                        format_bytes(need.state), need.state)
          : fmt::format("a step at batch {} takes {} ({} bytes)", flags.batch,
                        format_bytes(need.peak_reserved), need.peak_reserved);
  throw DoesNotFit{fmt::format("{} does not fit the {} of {} ({} bytes): {}{}", flags.model,
                               flags.budget > 0 ? "budget" : "machine's memory",
                               format_bytes(flags.limit()), flags.limit(), why, remedy)};
}

}  // namespace

std::optional<StepMemory> prediction_if_any(const TrainFlags& flags, const TrainData& data,
                                            int64_t batch) {
  try {
    return predict_memory(flags, data, batch);
  } catch (const ValueError&) {
    return {};  // batch norm wants two values per channel
  }
}

StepMemory predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  return measure_on_meta(flags.planner, [&](const std::function<void()>& state_is_held) {
    Rehearsal rehearsal(flags, data, batch);
    state_is_held();
    rehearsal.run();
  });
}

StepMemory plan_memory(const TrainFlags& flags, const TrainData& data, Events& events) {
  StepMemory need = predict_memory(flags, data, flags.batch);
  if (need.peak_reserved > flags.limit()) refuse(flags, data, need, events);
  Json event{{"event", "plan"},
             {"batch", flags.batch},
             {"micro_batches", 1},
             {"effective_batch", flags.batch},
             {"predicted_peak_bytes", need.peak_reserved},
             {"predicted_peak_live_bytes", need.peak_live},
             {"relative_time", 1.0},
             {"remedies", Json::array()},
             {"precision", "f32"}};
  if (flags.budget > 0) event["budget_bytes"] = flags.budget;
  events.write(event);
  return need;
}

}  // namespace brim::examples
