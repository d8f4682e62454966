#include "brim/tests/recompute/observed_training.h"

#include <fmt/core.h>

#include <array>
#include <cstring>

#include "brim/autograd/op.h"
#include "brim/memory/source.h"
#include "brim/tests/train/plain_net.h"
#include "brim/train/trainer.h"

namespace brim::testing {
namespace {

/// Of bytes, in four lanes that do not wait for each other.
class Hash {
 public:
  void add(const char* bytes, int64_t count) {
    for (; count >= 32; bytes += 32, count -= 32)
      for (size_t lane = 0; lane < 4; ++lane) add_word<8>(bytes + 8 * lane, lanes_[lane]);
    for (; count >= 4; bytes += 4, count -= 4) add_word<4>(bytes, lanes_[0]);
    for (; count > 0; ++bytes, --count) add_word<1>(bytes, lanes_[0]);
  }
  uint64_t bits() const {
    uint64_t bits = 0;
    for (uint64_t lane : lanes_) mix(lane, bits);
    return bits;
  }

 private:
  template <size_t size>
  static void add_word(const char* bytes, uint64_t& lane) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    mix(word, lane);
  }
  static void mix(uint64_t word, uint64_t& into) {
    into = (into ^ word) * 0x9E3779B97F4A7C15ull;
    into ^= into >> 29;
  }

  std::array<uint64_t, 4> lanes_{1, 2, 3, 4};
};

/// In the order of the indices, whatever the strides. Asks the account for nothing.
void add_strided(const char* bytes, const Layout& layout, int axis, Hash& hash) {
  const int64_t size = size_of(layout.dtype);
  if (axis == layout.shape.size()) return hash.add(bytes, size);
  for (int64_t i = 0; i < layout.shape[axis]; ++i)
    add_strided(bytes + i * layout.strides[axis] * size, layout, axis + 1, hash);
}

uint64_t digest_of(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  Hash hash;
  const auto* bytes = static_cast<const char*>(tensor.data());
  if (tensor.is_contiguous())
    hash.add(bytes, tensor.numel() * size_of(tensor.dtype()));
  else
    add_strided(bytes, tensor.layout(), 0, hash);
  return hash.bits();
}

/// Holds nothing of what it sees, so that bytes are those of a training that nobody observes.
class Digesting final : public autograd::OpObserver {
 public:
  Digesting(ObservedTraining& into, int64_t images) : into_(into), images_(images) {}

  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::recompute) {
      ++into_.replays;
      into_.by_rows += event.outputs[0].dim() == 4 && event.outputs[0].size(0) < images_;
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
  int64_t images_;
};

void add_state(const std::vector<nn::NamedTensor>& tensors, ObservedTraining& into) {
  for (const nn::NamedTensor& each : tensors)
    into.digests.push_back({each.name, digest_of(each.tensor)});
}

void run(const ZooTraining& training, const ObserveOptions& how, ObservedTraining& into) {
  auto model = make_zoo_model(training, Device::cpu());
  Updating updating = make_zoo_updating(*model);
  RandomBatches source(
      {.images = training.batch, .batches = training.steps, .size = training.size});
  TrainerOptions options = zoo_trainer_options(training);
  options.recompute = how.recompute;
  options.offload = how.offload;
  Trainer trainer(*model, *updating.optimizer, {source}, options);
  trainer.on_step = [&](const StepReport& step) { into.losses.push_back(step.loss); };
  {
    Digesting digesting(into, training.batch);
    trainer.run();
  }
  if (trainer.offload() != nullptr) into.fetched = trainer.offload()->stats().copies_in;
  add_state(model->named_parameters(), into);
  add_state(model->named_buffers(), into);
  add_state(updating.optimizer->named_state(), into);
}

}  // namespace

ObservedTraining observe(const ZooTraining& training, const ObserveOptions& options) {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(options.cap), options.planner);
  auto host = memory::capped_host_account("caching");
  memory::AccountScope scope(account);
  autograd::OffloadHostScope offloading(host);
  ObservedTraining result;
  autograd::manual_seed(11);
  run(training, options, result);
  // What a draw outside of the steps would get next: no policy took a number from there.
  result.digests.push_back(
      {"the next address outside of steps", autograd::next_random_address("probe").key.value});
  result.stats = account->stats();
  result.host = host->stats();
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
