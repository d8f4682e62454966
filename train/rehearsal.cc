#include "brim/train/rehearsal.h"

#include <algorithm>
#include <optional>

#include "brim/nn/creation.h"
#include "brim/nn/eval_scope.h"

namespace brim {
namespace {

class Rehearsal {
 public:
  explicit Rehearsal(const RehearsalOptions& options)
      : options_(options),
        model_(make_model(options)),
        updating_(options.make_updating(*model_)),
        step_(*model_, *updating_.optimizer,
              {.clip = options.trainer.clip, .ema = updating_.ema.get()}) {
    options_.trainer.input.device = Device::meta();
  }

  void run() {
    int64_t left = options_.trainer.steps;
    for (int epoch = 0; epoch < 2 && left > 0; ++epoch) {
      for (int64_t i = 0; i < std::min<int64_t>({2, left, options_.updates}); ++i)
        update(std::max(options_.batch, options_.effective_batch));
      // In a short run the last epoch ends before its smaller update.
      if (options_.last_update > 0 && left > options_.updates) update(options_.last_update);
      left -= options_.updates + (options_.last_update > 0 ? 1 : 0);
      if (options_.evaluated > 0) evaluate();
    }
  }

 private:
  static std::unique_ptr<nn::Module> make_model(const RehearsalOptions& options) {
    nn::CreationScope on_meta({.device = Device::meta()});
    return options.make_model();
  }

  data::DeviceBatch upload(int64_t images) const {
    return data::empty_batch(images, options_.size, Device::meta());
  }

  void update(int64_t images) {
    step_.begin();
    for (int64_t left = images; left > 0; left -= options_.batch) {
      int64_t part = std::min(options_.batch, left);
      step_.micro_step([&] { return training_loss(*model_, upload(part), options_.trainer); },
                       {.samples = part});
    }
    step_.prepare(0);
    step_.commit();
  }

  void evaluate() {
    std::optional<optim::EmaScope> averaged;
    if (updating_.ema != nullptr) averaged.emplace(*updating_.ema);
    nn::EvalScope eval(*model_);
    int64_t batch = std::min(options_.batch, options_.evaluated);
    for (int64_t i = 0; i < std::min<int64_t>(options_.evaluated / batch, 2); ++i) evaluate(batch);
    if (int64_t rest = options_.evaluated % batch; rest > 0) evaluate(rest);
  }

  void evaluate(int64_t images) {
    memory::SectionScope section(memory::account(Device::meta()),
                                 {memory::SectionKind::evaluation, images});
    evaluate_batch(*model_, upload(images), options_.trainer.input);
  }

  RehearsalOptions options_;
  std::unique_ptr<nn::Module> model_;
  Updating updating_;
  TrainStep step_;
};

}  // namespace

void rehearse(const RehearsalOptions& options, const std::function<void()>& state_is_held) {
  Rehearsal rehearsal(options);
  state_is_held();
  rehearsal.run();
}

}  // namespace brim
