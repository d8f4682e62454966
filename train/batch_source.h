// Where a trainer's batches come from: a loader, or one synthetic batch over and over, for timing a
// bare step. Derive from `BatchSource` to train on other bytes in host memory. A `HostBatch` points
// into its source, which must outlive it. Evaluation takes a `data::Loader` as it is, and so can a
// loop of your own (train/train_step.h).
#pragma once

#include <optional>

#include "brim/base/error.h"
#include "brim/data/device_batch.h"
#include "brim/data/loader.h"
#include "brim/data/synthetic.h"
#include "brim/train/parts.h"

namespace brim {

/// Images in host memory. Holds the loader's slot, if it came from one.
struct HostBatch {
  std::span<const uint8_t> pixels;  ///< count x size x size x 3
  std::span<const int64_t> labels;
  int size = 0;
  std::optional<data::Batch> slot = {};
  const data::Batch* whole = nullptr;  ///< whose bytes these are, of a part; null for none

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  /// Some of its images; does not hold the slot, which must outlive it.
  HostBatch part(const Part& part) const {
    auto first = static_cast<size_t>(part.first), images = static_cast<size_t>(part.count);
    size_t bytes = labels.empty() ? 0 : pixels.size() / labels.size();
    return {.pixels = pixels.subspan(first * bytes, images * bytes),
            .labels = labels.subspan(first, images),
            .size = size,
            .whole = source()};
  }
  /// A copy on `device`, as of `data::to_device`.
  data::DeviceBatch upload(Device device) const {
    return data::to_device(pixels, labels, size, device, source());
  }
  const data::Batch* source() const { return slot ? &*slot : whole; }
};

/// What the batches of an epoch hold.
struct EpochShape {
  int64_t batches = 0;      ///< whole ones
  int64_t images = 0;       ///< of each
  int64_t last_images = 0;  ///< of a smaller one at the end; 0 for none
  int size = 0;             ///< of an image, in pixels
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual EpochShape shape() const = 0;
  /// Batches in an epoch, a smaller last one included.
  int64_t batches() const {
    EpochShape epoch = shape();
    return epoch.batches + (epoch.last_images > 0 ? 1 : 0);
  }
  /// Begins epoch `epoch` >= 0 at batch `first_batch`, from 0 to `batches()`, where nothing is
  /// left. Throws `ValueError` for a number out of range.
  void start_epoch(int64_t epoch, int64_t first_batch = 0) {
    expect<ValueError>(epoch >= 0, "batch source", "expected an epoch of at least 0, got {}",
                       epoch);
    expect<ValueError>(first_batch >= 0 && first_batch <= batches(), "batch source",
                       "expected a first batch from 0 to {}, got {}", batches(), first_batch);
    begin_epoch(epoch, first_batch);
  }
  /// Nothing at the end of the epoch.
  virtual std::optional<HostBatch> next() = 0;

 private:
  /// What batch `first_batch` and those after it hold does not depend on where the epoch begins:
  /// a training that goes on from a checkpoint relies on it.
  virtual void begin_epoch(int64_t epoch, int64_t first_batch) = 0;
};

class LoaderSource final : public BatchSource {
 public:
  explicit LoaderSource(data::Loader& loader) : loader_(loader) {}
  EpochShape shape() const override {
    const data::LoaderOptions& options = loader_.options();
    int64_t batch = std::min(options.batch, loader_.images());
    return {loader_.images() / batch, batch, loader_.images() % batch, options.size};
  }
  std::optional<HostBatch> next() override {
    auto batch = loader_.next();
    if (!batch) return {};
    HostBatch result{batch->pixels(), batch->labels(), batch->size()};
    result.slot = std::move(batch);
    return result;
  }

 private:
  void begin_epoch(int64_t epoch, int64_t first_batch) override {
    loader_.start_epoch(epoch, first_batch);
  }

  data::Loader& loader_;
};

/// One batch of random images, again and again.
class SyntheticSource final : public BatchSource {
 public:
  /// An epoch gives the batch `batches` times.
  SyntheticSource(const data::SyntheticOptions& options, int64_t batches)
      : batch_(data::make_synthetic(options)), batches_(batches) {}
  EpochShape shape() const override {
    return {batches_, static_cast<int64_t>(batch_.labels.size()), 0, batch_.size};
  }
  std::optional<HostBatch> next() override {
    if (given_ == batches_) return {};
    ++given_;
    return HostBatch{batch_.pixels, batch_.labels, batch_.size};
  }

 private:
  void begin_epoch(int64_t, int64_t first_batch) override { given_ = first_batch; }

  data::SyntheticBatch batch_;
  int64_t batches_, given_ = 0;
};

}  // namespace brim
