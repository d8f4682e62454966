// A training with all that a step may change, and requests that are refused in it one by one: what
// tests of running out share. AdamW, clipping, averages; for the bare step with SGD make a
// `TrainStep` yourself.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "brim/memory/out_of_memory.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/train_step.h"

namespace brim::testing {

/// What is made around a model to train it.
struct Training {
  explicit Training(nn::Module& from, const RecomputeOptions& recompute = {},
                    const OffloadOptions& offload = {})
      : model(from),
        adamw(model.named_parameters(), {.groups = optim::no_decay(model)}),
        ema(model, {.decay = 0.5}),
        step(model, adamw, options(recompute, offload)) {}

  double update(const Problem& problem) {
    return step.run(0.01, [&] { return cross_entropy(model(problem.images), problem.labels); });
  }
  /// Parameters, buffers, optimizer state and averages.
  std::vector<nn::NamedTensor> state() const {
    std::vector<nn::NamedTensor> all = model.named_parameters();
    for (const auto& more : {model.named_buffers(), adamw.named_state(), ema.named_state()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  bool has_gradients() const {
    for (const nn::NamedTensor& parameter : model.named_parameters())
      if (parameter.tensor.grad().defined()) return true;
    return false;
  }

  nn::Module& model;
  optim::AdamW adamw;
  optim::Ema ema;
  TrainStep step;

 private:
  TrainStepOptions options(const RecomputeOptions& recompute, const OffloadOptions& offload) {
    return {.seed = 5,
            .clip = {.norm = 0.5, .value = 0.1},
            .ema = &ema,
            .recompute = recompute,
            .offload = offload};
  }
};

/// The bytes of a training's state, kept outside of the account.
class Snapshot {
 public:
  explicit Snapshot(const Training& training) {
    for (const nn::NamedTensor& each : training.state()) {
      auto* bytes = static_cast<const char*>(each.tensor.data());
      copies_.emplace_back(bytes, bytes + bytes_of(each.tensor));
    }
  }
  /// The name of the first tensor that differs; "" for none.
  std::string difference(const Training& training) const {
    std::vector<nn::NamedTensor> now = training.state();
    for (size_t i = 0; i < now.size(); ++i)
      if (std::memcmp(now[i].tensor.data(), copies_[i].data(), bytes_of(now[i].tensor)) != 0)
        return now[i].name;
    return "";
  }

 private:
  static size_t bytes_of(const Tensor& tensor) {
    return static_cast<size_t>(tensor.numel() * size_of(tensor.dtype()));
  }
  std::vector<std::vector<char>> copies_;
};

/// Runs `work` with its nth allocation refused; what it threw, or nothing where there are fewer.
template <class Work>
std::optional<memory::Shortage> refused_at(memory::Account& account, int64_t n, const Work& work) {
  account.fail_nth(n);
  std::optional<memory::Shortage> shortage;
  try {
    work();
  } catch (const memory::OutOfMemory& error) {
    shortage = error.shortage();
  }
  account.fail_nth(0);
  return shortage;
}

}  // namespace brim::testing
