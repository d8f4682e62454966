// The remedies that there are. Each is one class; another one joins in `standard_ladder`.
#include <algorithm>

#include "brim/train/batch_tuning.h"
#include "brim/train/ladder.h"
#include "brim/train/low_memory.h"
#include "brim/train/parts.h"
#include "brim/train/pruned_training.h"
#include "brim/train/recompute_plan.h"

namespace brim {
namespace {

RecomputeMeans means_of(const TrainingSetup& setup) {
  return setup.will_plan.value_or(RecomputeMeans{});
}

// An arena wastes nothing and reserves what it needs once.
class UseArena final : public Remedy {
 public:
  std::string name() const override { return "planner"; }
  bool changes_numbers() const override { return false; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    if (setup.planner == "arena") return {{}, "the arena is in force already"};
    TrainingSetup changed = setup;
    changed.planner = "arena";
    return {std::move(changed), "arena planner"};
  }
};

class InputAsBytes final : public Remedy {
 public:
  std::string name() const override { return "input as uint8"; }
  bool changes_numbers() const override { return false; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    if (setup.rehearsal.loss) return {{}, "what is in a batch is for its loss to say"};
    if (setup.rehearsal.trainer.input.as_bytes) return {{}, "images are bytes already"};
    TrainingSetup changed = setup;
    changed.rehearsal.trainer.input.as_bytes = true;
    return {std::move(changed), "input as uint8"};
  }
};

// The tape decides op by op where that may be.
class InPlace final : public Remedy {
 public:
  std::string name() const override { return "in place"; }
  bool changes_numbers() const override { return false; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    if (setup.rehearsal.trainer.in_place) return {{}, "in force already"};
    TrainingSetup changed = setup;
    changed.rehearsal.trainer.in_place = true;
    return {std::move(changed), "elementwise ops in place"};
  }
};

// Saved tensors that are dropped, and made again for backward.
class Recompute final : public Remedy {
 public:
  std::string name() const override { return "recompute"; }
  bool changes_numbers() const override { return false; }
  bool plans_saved() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t limit) const override {
    RecomputeMeans means = means_of(setup);
    means.offload = false;
    RecomputeChoice choice = choose_recomputation(setup, limit, means);
    if (choice.dropped == 0) return {{}, choice.fits ? "it fits without" : "nothing helps"};
    TrainingSetup changed = setup;
    changed.rehearsal.trainer.recompute = std::move(choice.recompute);
    return {std::move(changed), fmt::format("recompute {} saved tensors", choice.dropped)};
  }
};

// Saved tensors that wait in host memory. Beside recomputation the two are planned together.
class OffloadSaved final : public Remedy {
 public:
  std::string name() const override { return "offload"; }
  bool changes_numbers() const override { return false; }
  bool plans_saved() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t limit) const override {
    if (!setup.rehearsal.trainer.offload.enabled) return {{}, "the training does not offload"};
    RecomputeMeans means = means_of(setup);
    means.drop = setup.rehearsal.trainer.recompute.make_policy != nullptr;
    RecomputeChoice choice = choose_recomputation(setup, limit, means);
    if (choice.offloaded == 0) return {{}, "it fits without, or no faster with it"};
    TrainingSetup changed = setup;
    changed.rehearsal.trainer.recompute = std::move(choice.recompute);
    std::string text = fmt::format("offload {} saved tensors", choice.offloaded);
    if (choice.dropped > 0) text += fmt::format(" and recompute {}", choice.dropped);
    return {std::move(changed), std::move(text)};
  }
};

// The same update in more parts. Sums are rounded in another order, and batch norm sees fewer
// images at once.
class MicroBatches final : public Remedy {
 public:
  std::string name() const override { return "micro-batches"; }
  bool changes_numbers() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t limit) const override {
    const int64_t images = setup.rehearsal.update_images();
    if (setup.rehearsal.batch <= 1) return {{}, "one image at once is the least"};
    if (setup.rehearsal.trainer.fused_update)
      return {{}, "a fused update is made of the gradients of one part"};
    const int64_t batch =
        setup.will_plan ? fewest_parts(setup, images, limit) : fewer_images(setup, images, limit);
    if (batch == 0) return {{}, "the model trains with no fewer images"};
    return {with_batch(setup, batch),
            fmt::format("{} micro-batches of {}", count_parts(images, batch), batch)};
  }

 private:
  // The most that fit, or the fewest that there can be; 0 where there cannot be fewer.
  static int64_t fewer_images(const TrainingSetup& setup, int64_t images, int64_t limit) {
    try {
      TunedBatch tuned = tune_batch(
          {.rehearsal = [&](int64_t batch) { return with_batch(setup, batch).rehearsal; },
           .planner = setup.planner,
           .limit = limit,
           .most = setup.rehearsal.batch - 1,
           .update_images = images});
      return tuned.batch > 0 ? tuned.batch : tuned.least;
    } catch (const ValueError&) {
      return 0;  // batch norm wants two values per channel
    }
  }

  // The same where each number of parts is planned for: fewer plans, by doubling and bisection on
  // the parts.
  static int64_t fewest_parts(const TrainingSetup& setup, int64_t images, int64_t limit) {
    const auto in_each = [&](int64_t parts) { return (images + parts - 1) / parts; };
    const auto bytes = [&](int64_t batch) -> std::optional<int64_t> {
      try {
        return predicted_memory(with_batch(setup, batch), limit).peak_reserved;
      } catch (const ValueError&) {
        return {};  // batch norm wants two values per channel
      }
    };
    const auto fits = [&](int64_t parts) {
      return bytes(in_each(parts)).value_or(limit + 1) <= limit;
    };
    int64_t least = 1;
    std::optional<int64_t> needed;
    while (least < setup.rehearsal.batch && !(needed = bytes(least))) ++least;
    if (!needed) return 0;
    if (*needed > limit) return least;
    int64_t too_few = count_parts(images, setup.rehearsal.batch);
    int64_t enough = std::min(2 * too_few, count_parts(images, least));
    while (enough < count_parts(images, least) && !fits(enough)) {
      too_few = enough;
      enough = std::min(2 * enough, count_parts(images, least));
    }
    while (enough - too_few > 1) {
      const int64_t middle = (enough + too_few) / 2;
      (fits(middle) ? enough : too_few) = middle;
    }
    return enough == count_parts(images, least) ? least : in_each(enough);
  }

  static TrainingSetup with_batch(const TrainingSetup& setup, int64_t batch) {
    TrainingSetup changed = setup;
    changed.rehearsal.effective_batch = setup.rehearsal.update_images();
    changed.rehearsal.batch = batch;
    return changed;
  }
};

// Products in bfloat16, whose range is float32's, so that nothing else need change.
class MixedPrecision final : public Remedy {
 public:
  std::string name() const override { return "precision"; }
  bool changes_numbers() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    const Dtype precision = setup.rehearsal.trainer.precision;
    if (is_low_precision(precision))
      return {{}, fmt::format("{} is in force already", to_string(precision))};
    TrainingSetup changed = setup;
    changed.rehearsal.trainer.precision = Dtype::bfloat16;
    return {std::move(changed), "bfloat16 mixed precision"};
  }
};

// Gradients wait for the update in half the bytes.
class LowGradients final : public Remedy {
 public:
  std::string name() const override { return "gradients"; }
  bool changes_numbers() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    const TrainerOptions& trainer = setup.rehearsal.trainer;
    if (trainer.gradients == Dtype::bfloat16) return {{}, "bfloat16 is in force already"};
    if (trainer.fused_update) return {{}, "a fused update keeps none"};
    TrainingSetup changed = setup;
    changed.rehearsal.trainer.gradients = Dtype::bfloat16;
    return {std::move(changed), "gradients in bfloat16"};
  }
};

class LowState final : public Remedy {
 public:
  std::string name() const override { return "optimizer state"; }
  bool changes_numbers() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    const KeptTypes types = kept_types(setup.rehearsal);
    if (!types.low_state) return {{}, "the optimizer has none, or cannot be made again with it"};
    if (*types.low_state) return {{}, "bfloat16 is in force already"};
    TrainingSetup changed = setup;
    changed.rehearsal = with_low_state(std::move(changed.rehearsal));
    return {std::move(changed), "optimizer state in bfloat16"};
  }
};

// No copies in float32 of what products read.
class LowParameters final : public Remedy {
 public:
  std::string name() const override { return "parameters"; }
  bool changes_numbers() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    const RehearsalOptions& training = setup.rehearsal;
    if (training.trainer.precision == Dtype::float16)
      return {{}, "the training is in float16, and parameters would be in bfloat16"};
    const KeptTypes types = kept_types(training);
    if (types.low_parameters) return {{}, "bfloat16 is in force already"};
    if (types.has_averages) return {{}, "averages of parameters in bfloat16 would stand still"};
    TrainingSetup changed = setup;
    changed.rehearsal = with_low_parameters(std::move(changed.rehearsal));
    if (types.low_state == false) changed.rehearsal = with_low_state(std::move(changed.rehearsal));
    return {std::move(changed), types.low_state
                                    ? "pure bfloat16: parameters, gradients and optimizer state"
                                    : "pure bfloat16: parameters and gradients"};
  }
};

// Gradients are never all held at once.
class FusedUpdate final : public Remedy {
 public:
  std::string name() const override { return "fused update"; }
  bool changes_numbers() const override { return false; }
  bool is_proposed_only() const override { return true; }  // a failed step is not undone with it
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    const RehearsalOptions& training = setup.rehearsal;
    if (training.trainer.fused_update) return {{}, "in force already"};
    if (training.update_images() > training.batch)
      return {{}, "gradients of several micro-batches are added up"};
    if (training.trainer.clip.norm < optim::ClipOptions::kNone)
      return {{}, "gradients are clipped by the norm of all of them"};
    if (training.trainer.gradients != Dtype::float32) return {{}, "gradients are kept in bfloat16"};
    if (training.trainer.precision == Dtype::float16)
      return {{}, "an update that overflows in float16 could not be skipped"};
    if (setup.planner != "arena")
      return {{},
              "it needs the bytes of the whole step beforehand, which is for the arena planner"};
    TrainingSetup changed = setup;
    changed.rehearsal.trainer.fused_update = true;
    return {std::move(changed), "update fused into backward (cannot be undone)"};
  }
};

// Channels for good: it proposes a model, which is to be trained and pruned first. Half of them is
// the most: a model that lost more is rarely what was wanted.
class PruneChannels final : public Remedy {
 public:
  std::string name() const override { return "pruning"; }
  bool changes_numbers() const override { return true; }
  bool changes_model() const override { return true; }
  Offer offer(const TrainingSetup& setup, int64_t limit) const override {
    if (setup.rehearsal.loss) return {{}, "what the model's input is like is not known"};
    try {
      return offer_smaller(setup, limit);
    } catch (const ShapeError& error) {
      return {{}, error.what()};  // the model's code says how many channels there are
    }
  }

 private:
  static Offer offer_smaller(const TrainingSetup& setup, int64_t limit) {
    int tenths = 5, too_few = 0;  // of the channels
    const bool some_fit = peak_without(setup, tenths, limit) <= limit;
    while (some_fit && tenths - too_few > 1) {
      const int middle = (tenths + too_few) / 2;
      (peak_without(setup, middle, limit) <= limit ? tenths : too_few) = middle;
    }
    PrunedTraining pruned = with_fewer_channels(setup.rehearsal, tenths / 10.0);
    if (pruned.flops_left == 1) return {{}, "the model has no channels that could go"};
    TrainingSetup changed = setup;
    changed.rehearsal = std::move(pruned.rehearsal);
    return {std::move(changed),
            fmt::format("a model pruned by {}0% of each layer's channels, to {:.2f} of the FLOPs",
                        tenths, pruned.flops_left)};
  }

  static int64_t peak_without(const TrainingSetup& setup, int tenths, int64_t limit) {
    TrainingSetup pruned = setup;
    pruned.rehearsal = with_fewer_channels(setup.rehearsal, tenths / 10.0).rehearsal;
    return predicted_memory(pruned, limit).peak_reserved;
  }
};

}  // namespace

Ladder standard_ladder() {
  Ladder ladder;
  ladder.add(std::make_unique<UseArena>())
      .add(std::make_unique<InputAsBytes>())
      .add(std::make_unique<InPlace>())
      .add(std::make_unique<Recompute>())
      .add(std::make_unique<OffloadSaved>())
      .add(std::make_unique<FusedUpdate>())
      .add(std::make_unique<MixedPrecision>())
      .add(std::make_unique<LowGradients>())
      .add(std::make_unique<LowState>())
      .add(std::make_unique<LowParameters>())
      .add(std::make_unique<PruneChannels>())
      .add(std::make_unique<MicroBatches>());
  return ladder;
}

}  // namespace brim
