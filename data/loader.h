// Batches of prepared images, read ahead by worker threads into a fixed number of host slots that
// are allocated once.
//
// What a batch holds depends on (dataset, options, epoch, position) alone, never on the number of
// workers or on timing; batches come in order. Workers use no OpenMP and no device memory. Copy a
// batch to the device with `data/device_batch.h`; for timing without reading, see
// `data/synthetic.h`.
//
//   Loader loader(dataset, {.batch = 128, .size = 32, .augment = {.flip = true}});
//   for (int64_t epoch = 0; epoch < epochs; ++epoch) {
//     loader.start_epoch(epoch);
//     while (std::optional<Batch> batch = loader.next()) train(*batch);
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "brim/data/dataset.h"
#include "brim/data/transforms.h"

namespace brim::memory {
class Account;
}

namespace brim::data {

/// What becomes of an image that cannot be read.
enum class BadImage {
  fail,     ///< `next` throws
  replace,  ///< the dataset's next good image, with its label: keeps batches whole for training
  ignore,   ///< black, with the label `kIgnoredLabel`, which counts in no loss and no accuracy
};

/// Not a class: the default `ignore_index` of `cross_entropy`.
inline constexpr int64_t kIgnoredLabel = -100;

/// The most threads that one loader takes.
inline constexpr int kMostWorkers = 1024;

struct LoaderOptions {
  /// Images in a batch.
  int64_t batch = 0;
  /// Height and width of a prepared image, in pixels.
  int size = 0;
  /// Threads that read and prepare; at most `kMostWorkers`; 0 works in
  /// the thread that calls `next`.
  int workers = 2;
  /// Batches held in host memory at once, those that the caller holds included; 0 is workers + 2.
  int slots = 0;
  uint64_t seed = 0;
  /// A new random order each epoch; otherwise the dataset's own.
  bool shuffle = true;
  /// Leave out the last batch where it would be smaller than the others.
  bool drop_last = false;
  /// A dataset smaller than one batch: make the batch as small (evaluation), or refuse (training).
  bool clamp_batch = false;
  Augment augment = {};
  BadImage bad_image = BadImage::fail;
  /// Whom the slots are charged to, as input: for batches that go to a GPU an account of pinned
  /// memory (`memory::pinned_account`), from which copies run beside the host's work. Where it has
  /// no room, and where there is none, they are plain memory in no account.
  std::shared_ptr<memory::Account> host = nullptr;
};

namespace detail {
class CopyMark;
class SlotPool;
struct Slot;
}  // namespace detail

/// A hold on one filled host slot. The slot goes back to the loader when the Batch is destroyed,
/// in any thread, also after the loader is gone; copies of it to a GPU are waited for then
/// (data/device_batch.h).
class Batch {
 public:
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;
  ~Batch();

  /// Images in this batch; the last one of an epoch may have fewer.
  int64_t count() const;
  /// Height and width of each image.
  int size() const;
  /// count x size x size x 3 (NHWC, RGB). The first byte lies on a multiple of 64.
  std::span<const uint8_t> pixels() const;
  /// One class for each image.
  std::span<const int64_t> labels() const;
  /// The position of the first image in the epoch's order.
  int64_t first_sample() const;
  /// For `to_device`.
  detail::CopyMark& copies() const;

 private:
  friend class Loader;
  Batch(std::shared_ptr<detail::SlotPool> pool, detail::Slot* slot);
  void release() noexcept;

  std::shared_ptr<detail::SlotPool> pool_;
  detail::Slot* slot_ = nullptr;
};

class Loader {
 public:
  /// Allocates the slots; reads nothing. A `host` without room is no error. Throws `ValueError`
  /// naming the value for an option out of range, an empty dataset, or a batch larger than the
  /// dataset without `clamp_batch`.
  Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);
  /// Stops the workers; the image that each is reading is finished first.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Batches in an epoch.
  int64_t batches() const;
  /// Images in an epoch: the dataset's, less a dropped last batch.
  int64_t images() const;
  const LoaderOptions& options() const { return options_; }
  /// Bytes of host memory in all slots.
  int64_t host_bytes() const;
  /// Why these are not of `options().host`; "" where they are, or none was given.
  const std::string& why_plain() const;

  /// Starts the workers on epoch `epoch` >= 0, from batch `first_batch` on, for a training that
  /// goes on in the middle of it: what the batches hold is the same as after those before it, of
  /// which nothing is read. From the end, batch `batches()`, there is nothing. Leaves an epoch
  /// under way. Throws `ValueError` for a number out of range, and then the epoch under way goes
  /// on.
  void start_epoch(int64_t epoch, int64_t first_batch = 0);

  /// The next batch, waiting for it if need be; nothing at the end of the epoch.
  ///
  /// Where an image of that batch failed, all workers are stopped and the error of the image that
  /// comes first in the epoch's order is thrown: `FileError` naming the file, `ValueError` for a
  /// label that is not below the dataset's classes. It is thrown again until `start_epoch`.
  /// Throws `ValueError` when the caller holds all slots, which would wait for ever.
  std::optional<Batch> next();

  /// Of the batches handed out so far, how many were not filled yet when `next` was called. Where
  /// workers are fast enough for the caller, those are the first of each epoch alone.
  int64_t waits() const { return waits_; }

  /// Different images of the dataset that could not be read and were skipped, in the batches
  /// handed out so far.
  int64_t skipped_images() const;
  /// Why each of them could not be read, in the order in which they were met.
  const std::vector<std::string>& skipped() const { return skip_reasons_; }

 private:
  class Epoch;

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::shared_ptr<detail::SlotPool> pool_;
  std::unique_ptr<Epoch> epoch_;
  int64_t waits_ = 0;
  std::set<int64_t> skipped_;
  std::vector<std::string> skip_reasons_;
};

}  // namespace brim::data
