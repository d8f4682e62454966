// A training to time: a model of the registry, or U-Net with a class for every pixel, on one batch
// of random pictures, with SGD and momentum. It is planned and rehearsed on the meta device, and
// runs on an account of its own that is capped at what was predicted, so that several can take
// turns in one program. What the network learns does not matter.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/memory/arena_planner.h"
#include "brim/nn/batch_norm2d.h"
#include "brim/nn/creation.h"
#include "brim/nn/models/unet.h"

namespace brim::bench {

struct TrainingShape {
  std::string model = "resnet50";  ///< of the registry, "unet" or "unet_bilinear"
  int64_t batch = 16;
  int64_t height = 224, width = 224;
  int64_t classes = 0;  ///< 0: 1000, of U-Net 2
  bool fused = true;    ///< norms with their activations

  bool is_unet() const { return model == "unet" || model == "unet_bilinear"; }
  int64_t outputs() const { return classes > 0 ? classes : is_unet() ? 2 : 1000; }
  /// Of so many pictures, one for each of them or for each pixel.
  Shape labels(int64_t images) const {
    return is_unet() ? Shape{images, height, width} : Shape{images};
  }
  TrainingShape with_batch(int64_t other) const {
    TrainingShape shape = *this;
    shape.batch = other;
    return shape;
  }
  std::string name() const {
    return fmt::format("{} at {}x{}, batch {}", model, height, width, batch);
  }
};

/// In training mode. Throws what `make_model` throws.
inline std::shared_ptr<nn::Module> make_network(const TrainingShape& shape, Device device) {
  if (!shape.is_unet())
    return nn::make_model(shape.model, {.classes = shape.outputs(), .device = device});
  nn::CreationScope scope({.device = device});
  auto net = std::make_shared<nn::UNet>(
      nn::UNetOptions{.classes = shape.outputs(), .bilinear = shape.model == "unet_bilinear"});
  nn::initialize(*net, /*seed=*/0);
  return net;
}

inline std::unique_ptr<optim::Optimizer> make_optimizer(const nn::Module& model) {
  return std::make_unique<optim::Sgd>(model.named_parameters(), optim::SgdOptions{.momentum = 0.9});
}

/// Pictures as bytes and their labels, without values.
inline data::DeviceBatch empty_pictures(const TrainingShape& shape, int64_t images, Device device) {
  memory::CategoryScope category(memory::Category::input);
  memory::SiteScope site({.op = "batch"});
  return {empty({images, shape.height, shape.width, 3}, {.dtype = Dtype::uint8, .device = device}),
          empty(shape.labels(images), {.dtype = Dtype::int64, .device = device})};
}

/// Random ones in plain host memory.
class Pictures {
 public:
  explicit Pictures(const TrainingShape& shape) : shape_(shape) {
    RandomStream random{RandomKey{1}};
    auto below = [&](int64_t limit) { return random.below(static_cast<uint64_t>(limit)); };
    pixels_.resize(static_cast<size_t>(shape.batch * shape.height * shape.width * 3));
    for (uint8_t& pixel : pixels_) pixel = static_cast<uint8_t>(below(256));
    labels_.resize(static_cast<size_t>(numel(shape.labels(shape.batch))));
    for (int64_t& label : labels_) label = static_cast<int64_t>(below(shape.outputs()));
  }

  int64_t labels() const { return std::ssize(labels_); }
  data::DeviceBatch upload() const {
    data::DeviceBatch batch = empty_pictures(shape_, shape_.batch, Device::cpu());
    std::ranges::copy(pixels_, batch.images.data<uint8_t>());
    std::ranges::copy(labels_, batch.labels.data<int64_t>());
    for (const Tensor& tensor : {batch.images, batch.labels}) tensor.storage()->note_write("batch");
    return batch;
  }

 private:
  TrainingShape shape_;
  std::vector<uint8_t> pixels_;
  std::vector<int64_t> labels_;
};

/// The loss of a forward pass as the shape says.
inline Tensor loss_of(const TrainingShape& shape, nn::Module& model, data::DeviceBatch batch) {
  std::optional<nn::UnfusedScope> unfused;
  if (!shape.fused) unfused.emplace();
  return training_loss(model, std::move(batch), TrainerOptions{}, Reduction::sum);
}

/// Of the steps that `TimedTraining` makes.
inline RehearsalOptions rehearsal_of(const TrainingShape& shape,
                                     const RecomputeOptions& recompute = {}) {
  const TrainerOptions options{.steps = 2, .recompute = recompute};
  return {.make_model = [=] { return make_network(shape, Device::meta()); },
          .make_updating =
              [](nn::Module& model) {
                return Updating{make_optimizer(model), {}};
              },
          .trainer = options,
          .batch = shape.batch,
          .updates = options.steps,
          .loss =
              [=](nn::Module& model, int64_t images) {
                return loss_of(shape, model, empty_pictures(shape, images, Device::meta()));
              }};
}

class TimedTraining {
 public:
  /// `plan` is of a rehearsal with the same shape and the same `recompute`. Takes the arena's
  /// bytes; pages are touched as steps first write to them.
  TimedTraining(const TrainingShape& shape, const RecomputeOptions& recompute,
                const RehearsedPlan& plan)
      : account_(std::make_shared<memory::Account>(
            Device::cpu(), std::make_unique<memory::HostSource>(plan.predicted.peak_reserved),
            memory::arena_planner(plan.plan))),
        shape_(shape),
        pictures_(shape),
        samples_(shape.batch) {
    memory::AccountScope scope(account_);
    model_ = make_network(shape, Device::cpu());
    optimizer_ = make_optimizer(*model_);
    step_ =
        std::make_unique<TrainStep>(*model_, *optimizer_, TrainStepOptions{.recompute = recompute});
  }

  /// Makes one update; returns its seconds.
  double step() {
    constexpr double kRate = 1e-4;  // of random labels nothing is to be learned
    memory::AccountScope scope(account_);
    auto loss = [&] { return loss_of(shape_, *model_, pictures_.upload()); };
    const MicroStepOptions whole{.weight = 1 / static_cast<double>(pictures_.labels()),
                                 .samples = samples_,
                                 .update_samples = samples_};
    return seconds_of([&] { step_->run(kRate, loss, whole); });
  }

  memory::AccountStats stats() const { return account_->stats(); }

 private:
  std::shared_ptr<memory::Account> account_;
  TrainingShape shape_;
  Pictures pictures_;
  int64_t samples_;
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<TrainStep> step_;
};

}  // namespace brim::bench
