#include "brim/tests/recompute/observed_training.h"

#include <fmt/core.h>

#include <cstring>

#include "brim/autograd/op.h"
#include "brim/memory/source.h"
#include "brim/tests/train/plain_net.h"
#include "brim/train/trainer.h"

namespace brim::testing {
namespace {

/// Of bytes, eight at a time.
class Hash {
 public:
  void add(const char* bytes, int64_t count) {
    for (int64_t i = 0; i < count; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + i, static_cast<size_t>(std::min<int64_t>(8, count - i)));
      bits_ = (bits_ ^ word) * 0x9E3779B97F4A7C15ull;
      bits_ ^= bits_ >> 29;
    }
  }
  uint64_t bits() const { return bits_; }

 private:
  uint64_t bits_ = 1;
};

/// In the order of the indices, whatever the strides. Asks the account for nothing.
void add(const Tensor& tensor, int axis, int64_t element, Hash& hash) {
  const int64_t size = size_of(tensor.dtype());
  const auto* bytes = static_cast<const char*>(tensor.data());
  if (tensor.is_contiguous()) return hash.add(bytes, tensor.numel() * size);
  if (axis == tensor.dim()) return hash.add(bytes + element * size, size);
  for (int64_t i = 0; i < tensor.size(axis); ++i)
    add(tensor, axis + 1, element + i * tensor.strides()[axis], hash);
}

uint64_t digest_of(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  Hash hash;
  add(tensor, 0, 0, hash);
  return hash.bits();
}

/// Holds nothing of what it sees, so that bytes are those of a training that nobody observes.
class Digesting final : public autograd::OpObserver {
 public:
  explicit Digesting(ObservedTraining& into) : into_(into) {}

  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::recompute) {
      ++into_.replays;
      return;
    }
    const bool is_forward = event.phase == autograd::Phase::forward;
    const char* what = is_forward ? "result" : "gradient";
    for (size_t i = 0; i < event.outputs.size(); ++i)
      into_.digests.push_back({fmt::format("step {}: {} {} of {} in '{}'", into_.losses.size() + 1,
                                           what, i, event.op.name(), event.module),
                               digest_of(event.outputs[i])});
    if (event.op.is_random() && is_forward)
      into_.digests.push_back({fmt::format("address of {} in '{}'", event.op.name(), event.module),
                               event.context.random.key.value + event.context.random.first_sample});
  }

 private:
  ObservedTraining& into_;
};

void add_state(const std::vector<nn::NamedTensor>& tensors, ObservedTraining& into) {
  for (const nn::NamedTensor& each : tensors)
    into.digests.push_back({each.name, digest_of(each.tensor)});
}

void run(const ZooTraining& training, const RecomputeOptions& recompute, ObservedTraining& into) {
  auto model = make_zoo_model(training, Device::cpu());
  Updating updating = make_zoo_updating(*model);
  RandomBatches source(
      {.images = training.batch, .batches = training.steps, .size = training.size});
  TrainerOptions options = zoo_trainer_options(training);
  options.recompute = recompute;
  Trainer trainer(*model, *updating.optimizer, {source}, options);
  trainer.on_step = [&](const StepReport& step) { into.losses.push_back(step.loss); };
  {
    Digesting digesting(into);
    trainer.run();
  }
  add_state(model->named_parameters(), into);
  add_state(model->named_buffers(), into);
  add_state(updating.optimizer->named_state(), into);
}

}  // namespace

ObservedTraining observe(const ZooTraining& training, const ObserveOptions& options) {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(options.cap), options.planner);
  memory::AccountScope scope(account);
  ObservedTraining result;
  autograd::manual_seed(11);
  run(training, options.recompute, result);
  // What a draw outside of the steps would get next: no policy took a number from there.
  result.digests.push_back(
      {"the next address outside of steps", autograd::next_random_address("probe").key.value});
  result.stats = account->stats();
  return result;
}

std::string difference(const ObservedTraining& a, const ObservedTraining& b) {
  for (size_t i = 0; i < std::min(a.losses.size(), b.losses.size()); ++i)
    if (std::memcmp(&a.losses[i], &b.losses[i], sizeof(double)) != 0)
      return fmt::format("the loss of step {}: {} and {}", i + 1, a.losses[i], b.losses[i]);
  for (size_t i = 0; i < std::min(a.digests.size(), b.digests.size()); ++i)
    if (a.digests[i] != b.digests[i])
      return fmt::format("{} and {}", a.digests[i].name, b.digests[i].name);
  if (a.losses.size() != b.losses.size() || a.digests.size() != b.digests.size())
    return fmt::format("{} losses and {}, {} digests and {}", a.losses.size(), b.losses.size(),
                       a.digests.size(), b.digests.size());
  return "";
}

}  // namespace brim::testing
