// A device that loses bytes in the middle of a training and gets them back, as a schedule says, and
// what the training made of that. Of several kinds: with batch norm, averages and evaluations, with
// frozen layers, with tensors that are the user's. For requests that are refused one by one see
// faults.h.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "brim/optim/ema.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/grey.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/small_net.h"
#include "brim/tests/train/values.h"
#include "brim/train/ladder.h"
#include "brim/train/live_rehearsal.h"
#include "brim/train/trainer.h"

namespace brim::testing {

inline constexpr int64_t kImages = 12;  // of an update
inline constexpr int64_t kSteps = 10;   // in two epochs
inline const char* const kPlanners[] = {"arena", "caching", "direct"};

/// What is trained.
struct LosingCase {
  bool batch_norm = false;  ///< SmallNet in float32; else PlainNet in float64
  bool evaluated = false;   ///< after each epoch: 20 images, in a batch of 12 and one of 8
  bool averaged = false;
  std::vector<std::string> frozen = {};
  int64_t held = 0;  ///< bytes of the device that the user holds
  int size = 8;      ///< of the images, in pixels
};

/// Calls `during` at the begin of each forward on the device, when the input is there.
struct WatchedNet final : nn::Module {
  explicit WatchedNet(const LosingCase& c) {
    if (c.batch_norm)
      body = std::make_unique<SmallNet>();
    else
      body = std::make_unique<PlainNet>();
    register_modules({{"body", *body}});
    for (const std::string& name : c.frozen) freeze("body." + name);
  }
  Tensor forward(Tensor x) override {
    if (during && !x.device().is_meta()) during();
    return (*body)(std::move(x));
  }
  std::unique_ptr<nn::Module> body;
  std::function<void()> during;
};

/// A model with all that trains it.
struct LosingTraining {
  explicit LosingTraining(const LosingCase& c)
      : model(c), source({.images = kImages, .batches = kSteps / 2, .size = c.size}) {
    input.dtype = c.batch_norm ? Dtype::float32 : Dtype::float64;
    if (c.averaged) ema = std::make_unique<optim::Ema>(model, optim::EmaOptions{.decay = 0.8});
    if (!c.evaluated) return;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < 20; ++i) labels.push_back(i % 2);
    validation = std::make_unique<data::Loader>(
        std::make_shared<Grey>(labels),
        data::LoaderOptions{.batch = kImages, .size = c.size, .workers = 0, .shuffle = false});
  }
  TrainingData data() { return {source, validation.get()}; }
  TrainerOptions options(const std::string& planner) const {
    return {.steps = kSteps,
            .seed = 4,
            .schedule = optim::ConstantSchedule{.rate = 0.1},
            .input = input,
            .ema = ema.get(),
            .planner = planner};
  }
  /// Parameters, buffers, optimizer state and averages.
  std::vector<double> values() const {
    std::vector<nn::NamedTensor> all = model.named_parameters();
    for (const auto& more : {model.named_buffers(), sgd.named_state()})
      all.insert(all.end(), more.begin(), more.end());
    if (ema) std::ranges::copy(ema->named_state(), std::back_inserter(all));
    return doubles_of(all);
  }
  /// Of the parameters that no update changes.
  std::vector<double> frozen_values() const {
    std::vector<nn::NamedTensor> all = model.named_parameters();
    std::erase_if(all, [](const nn::NamedTensor& each) { return each.tensor.requires_grad(); });
    return doubles_of(all);
  }

  WatchedNet model;
  optim::Sgd sgd{model.named_parameters(), {.momentum = 0.9}};
  std::unique_ptr<optim::Ema> ema;
  RandomBatches source;
  std::unique_ptr<data::Loader> validation;
  InputOptions input;
};

/// What the training holds with micro-batches of so many images.
inline int64_t predicted_bytes(const LosingCase& c, const std::string& planner,
                               int64_t micro_batch) {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  LosingTraining t(c);
  TrainerOptions options = t.options(planner);
  return predicted_memory({rehearsal_of(t.model, t.sgd, t.data(), options, micro_batch), planner})
      .peak_reserved;
}

/// With the whole batch: its device has as much as long as it loses none.
inline int64_t whole_batch_bytes(const LosingCase& c, const std::string& planner) {
  return predicted_bytes(c, planner, kImages);
}

/// When the device loses bytes, and when they come back: counted in updates that are done, and in
/// forwards since, those of evaluations too, as the loss may come in the middle.
struct Schedule {
  std::string planner = "arena";
  int64_t lost_after = kSteps, forwards = kSteps, back_after = kSteps;
  double left = 0.6;  ///< of what the whole batch takes
};

/// From `least` of the bytes are left, up to a quarter more.
inline Schedule random_schedule(const std::string& planner, RandomStream& random,
                                double least = 0.55) {
  Schedule schedule{.planner = planner,
                    .forwards = static_cast<int64_t>(random.below(3)),
                    .left = least + 0.25 * static_cast<double>(random.uniform())};
  schedule.lost_after = static_cast<int64_t>(random.below(kSteps - 1));
  schedule.back_after =
      schedule.lost_after + 1 +
      static_cast<int64_t>(random.below(static_cast<uint64_t>(kSteps - schedule.lost_after)));
  return schedule;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<double> evaluations;              ///< loss and accuracy of each
  std::vector<double> values, frozen;           ///< of `LosingTraining`, in the end
  std::vector<int64_t> micro_batches, at_once;  ///< of each step, and of each evaluation
  TrainerCounts counts;
  bool lost = false, lost_in_evaluation = false, held_moved = false;
  int64_t averaged_updates = 0;

  bool was_whole() const {
    auto whole = [](int64_t images) { return images == kImages; };
    return std::ranges::all_of(micro_batches, whole) && std::ranges::all_of(at_once, whole);
  }
};

/// Bytes of the user's, made before the training, and a weight as it was after the first update.
class Held {
 public:
  explicit Held(int64_t bytes) {
    if (bytes > 0) hold(uniform({bytes / 8}, -1, 1, RandomKey{9}, {.dtype = Dtype::float64}));
  }
  void hold_also(const Tensor& weight) {
    if (!tensors_.empty()) hold(clone(weight.detach()));
  }
  bool is_as_it_was() const {
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i].to_vector<double>() != values_[i]) return false;
    return true;
  }
  bool has_moved() const { return !tensors_.empty() && tensors_.front().data() != address_; }

 private:
  void hold(const Tensor& tensor) {
    if (tensors_.empty()) address_ = tensor.data();
    values_.push_back(tensor.to_vector<double>());
    tensors_.push_back(tensor);
  }
  std::vector<Tensor> tensors_;
  std::vector<std::vector<double>> values_;
  const void* address_ = nullptr;  // of the first
};

/// Checks on its way that what is held is within what the device has, that the user's bytes keep
/// their values, that all others come back, and that nothing is served other than planned.
inline Outcome train(const LosingCase& c, const Schedule& schedule) {
  constexpr int64_t kSlack = 4096;  // for the weight that is held
  const int64_t whole = whole_batch_bytes(c, schedule.planner);
  const int64_t held_bytes = c.held > 0 ? c.held + kSlack : 0;
  const int64_t capacity = whole + held_bytes;
  const int64_t less =
      static_cast<int64_t>(schedule.left * static_cast<double>(whole)) + held_bytes;
  Outcome outcome;
  auto account = memory::capped_host_account("direct", capacity);
  memory::AccountScope scope(account);
  {
    LosingTraining t(c);
    Held held(c.held);
    Trainer trainer(t.model, t.sgd, t.data(), t.options(schedule.planner));
    int64_t live = account->stats().live, forwards = 0, cap = capacity;
    auto set_cap = [&](int64_t bytes) {
      CHECK(account->stats().peak_reserved <= capacity);
      account->set_cap(bytes);
      account->reset_peak();
    };
    // What began after the loss holds no more than is left.
    auto check_peak = [&] {
      if (account->cap() == cap) CHECK(account->stats().peak_reserved <= cap);
      cap = account->cap();
    };
    t.model.during = [&] {
      if (trainer.updates() < schedule.lost_after || trainer.updates() >= schedule.back_after ||
          forwards++ != schedule.forwards)
        return;
      set_cap(less);
      outcome.lost = true;
      outcome.lost_in_evaluation = !t.model.training();
    };
    trainer.on_replan = [&](const ReplanReport&) { set_cap(account->cap()); };
    trainer.on_step = [&](const StepReport& step) {
      outcome.losses.push_back(step.loss);
      outcome.micro_batches.push_back(trainer.micro_batch());
      check_peak();
      if (step.step == schedule.back_after) set_cap(cap = capacity);
      if (step.step > 1) return;
      const int64_t before = account->stats().live;
      held.hold_also(t.model.named_parameters().front().tensor);
      live += account->stats().live - before;
    };
    trainer.on_epoch = [&](const EpochReport& epoch) {
      if (!epoch.validation) return;
      check_peak();
      outcome.evaluations.push_back(epoch.validation->loss);
      outcome.evaluations.push_back(epoch.validation->accuracy);
      outcome.at_once.push_back(trainer.micro_batch());
    };
    trainer.run();
    CHECK(account->stats().live == live);
    if (c.held == 0) CHECK(account->stats().mismatches == 0);
    CHECK(held.is_as_it_was());
    outcome.held_moved = held.has_moved();
    outcome.counts = trainer.counts();
    outcome.values = t.values();
    outcome.frozen = t.frozen_values();
    if (t.ema) outcome.averaged_updates = t.ema->updates();
  }
  CHECK(account->stats().live == 0);
  return outcome;
}

}  // namespace brim::testing
