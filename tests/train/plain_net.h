// A small network without batch norm, whose update does not depend on how it is cut into
// micro-batches, and a source of random batches for it with labels that do not count among them.
// [N,H,W,3] -> [N,4]; its seed is fixed, so that two of them start equal.
#pragma once

#include "brim/nn/layers.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/relu.h"
#include "brim/train/batch_source.h"

namespace brim::testing {

struct PlainNet final : nn::Module {
  explicit PlainNet(Dtype dtype = Dtype::float64) {
    register_modules({{"conv1", conv1}, {"conv2", conv2}, {"drop", drop}, {"fc", fc}});
    nn::initialize(*this, /*seed=*/3);
    to(dtype);
  }
  Tensor forward(Tensor x) override {
    x = relu(conv2(relu(conv1(std::move(x)))));
    return fc(drop(global_avg_pool(std::move(x))));
  }

  nn::Conv2d conv1{3, 8, {.kernel = 3, .padding = 1}};
  nn::Conv2d conv2{8, 8, {.kernel = 3, .padding = 1}};
  nn::Dropout drop{0.2};
  nn::Linear fc{8, 4};
};

/// Batches that differ from update to update, the same in each epoch.
class RandomBatches final : public BatchSource {
 public:
  struct Options {
    int64_t images = 8;       ///< of a batch
    int64_t batches = 10;     ///< whole ones
    int64_t last_images = 0;  ///< of a smaller one at the end; 0 for none
    int size = 8;
    int64_t ignored = 0;  ///< of each batch's labels, the first ones
  };
  explicit RandomBatches(const Options& options) : options_(options) {
    const int64_t smaller = options.last_images > 0 ? 1 : 0;
    for (int64_t i = 0; i < options.batches + smaller; ++i) {
      const int64_t images = i < options.batches ? options.images : options.last_images;
      batches_.push_back(data::make_synthetic({.count = images,
                                               .size = options.size,
                                               .classes = 4,
                                               .seed = static_cast<uint64_t>(i + 1)}));
      for (int64_t j = 0; j < options.ignored; ++j)
        batches_.back().labels[static_cast<size_t>(j)] = data::kIgnoredLabel;
    }
  }
  EpochShape shape() const override {
    return {options_.batches, options_.images, options_.last_images, options_.size};
  }
  std::optional<HostBatch> next() override {
    if (given_ == batches_.size()) return {};
    const data::SyntheticBatch& batch = batches_[given_++];
    return HostBatch{batch.pixels, batch.labels, batch.size};
  }

 private:
  void begin_epoch(int64_t, int64_t first_batch) override {
    given_ = static_cast<size_t>(first_batch);
  }

  Options options_;
  std::vector<data::SyntheticBatch> batches_;
  size_t given_ = 0;
};

}  // namespace brim::testing
