#include "brim/data/loader.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/parallel.h"
#include "brim/base/random.h"
#include "brim/data/permutation.h"
#include "brim/data/slot_pool.h"

namespace brim::data {
namespace {

using detail::Skipped;
using detail::Slot;
using detail::SlotPool;

constexpr const char* kTag = "loader";

// Images that a worker takes at once: enough that the lock costs nothing beside reading small
// images, few enough that all workers share the first batch.
constexpr int64_t kChunk = 8;

void check_options(const Dataset& dataset, LoaderOptions& options) {
  expect<ValueError>(options.batch >= 1, kTag, "expected a batch of at least 1, got {}",
                     options.batch);
  expect<ValueError>(options.workers >= 0 && options.workers <= kMostWorkers, kTag,
                     "expected between 0 and {} workers, got {}", kMostWorkers, options.workers);
  expect<ValueError>(options.slots >= 0 && options.slots <= 2 * kMostWorkers, kTag,
                     "expected between 0 and {} slots, got {}", 2 * kMostWorkers, options.slots);
  check_augment(options.augment, options.size);
  if (options.slots == 0) options.slots = options.workers + 2;
  const int64_t images = dataset.size();
  expect<ValueError>(images > 0, kTag, "the dataset is empty");
  expect<ValueError>(options.batch <= images || options.clamp_batch, kTag,
                     "the batch of {} is larger than the dataset of {} images", options.batch,
                     images);
  options.batch = std::min(options.batch, images);
}

RandomKey epoch_key(uint64_t seed, int64_t epoch) {
  return derive(derive(RandomKey{seed}, "loader"), static_cast<uint64_t>(epoch));
}

/// What one image came to.
struct Outcome {
  int64_t label = 0;
  std::optional<Skipped> skipped = {};
};

}  // namespace

/// One epoch under way: who fills which slot, and the threads that do.
class Loader::Epoch {
 public:
  /// Of `images` images in all, from position `first` of the order on.
  Epoch(const Dataset& dataset, const LoaderOptions& options, SlotPool& pool, int64_t images,
        int64_t epoch, int64_t first);
  ~Epoch() { stop(); }

  /// The slot of the next batch, filled, or null at the end of the epoch. Counts in `waits` where
  /// it was not filled before.
  Slot* next(int64_t& waits);

 private:
  /// Images [begin, end) of the batch in `slot`.
  struct Chunk {
    Slot* slot;
    int64_t begin, end;
  };

  void work(bool until_front);
  std::optional<Chunk> claim(std::unique_lock<std::mutex>& lock, bool until_front);
  bool begin_batch();
  void fill(const Chunk& chunk);
  void finish(const Chunk& chunk, int64_t failed_at, std::exception_ptr failure);
  Outcome fill_image(int64_t position, uint8_t* pixels) const;
  int64_t checked_label(int64_t index) const;
  int64_t image_bytes() const { return int64_t{options_.size} * options_.size * 3; }
  bool front_ready() const { return !in_order_.empty() && in_order_.front()->unfinished == 0; }
  void stop();

  const Dataset& dataset_;
  const LoaderOptions& options_;
  SlotPool& pool_;
  const int64_t images_;
  const Permutation order_;
  const RandomKey augment_key_;

  // These two belong to the pool's mutex.
  /// Slots of the batches begun and not yet handed out, in the epoch's order.
  std::vector<Slot*> in_order_;
  /// Where the next batch begins.
  int64_t next_position_;

  /// Set under the mutex, so that no waiting worker misses it; read without it between images.
  std::atomic<bool> stopping_ = false;
  /// What `next` threw, to throw again.
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

Loader::Epoch::Epoch(const Dataset& dataset, const LoaderOptions& options, SlotPool& pool,
                     int64_t images, int64_t epoch, int64_t first)
    : dataset_(dataset),
      options_(options),
      pool_(pool),
      images_(images),
      order_(dataset.size(), derive(epoch_key(options.seed, epoch), "shuffle")),
      augment_key_(derive(epoch_key(options.seed, epoch), "augment")),
      next_position_(first) {
  in_order_.reserve(static_cast<size_t>(pool.slots()));
  threads_.reserve(static_cast<size_t>(options.workers));
  try {
    for (int i = 0; i < options.workers; ++i)
      threads_.emplace_back([this] {
        NoParallelScope no_parallel;
        work(/*until_front=*/false);
      });
  } catch (const std::system_error& error) {  // of threads, as many as the system lets a user have
    stop();
    raise<ValueError>(kTag, "cannot start {} workers: {}", options.workers, error.what());
  } catch (...) {
    stop();
    throw;
  }
}

void Loader::Epoch::stop() {
  {
    std::lock_guard lock(pool_.mutex);
    stopping_ = true;
  }
  pool_.changed.notify_all();
  threads_.clear();
  std::lock_guard lock(pool_.mutex);
  for (Slot* slot : in_order_) pool_.give(slot);
  in_order_.clear();
}

/// Takes a slot for the next batch of the epoch; false where there is no batch or no slot.
bool Loader::Epoch::begin_batch() {
  if (next_position_ == images_) return false;
  Slot* slot = pool_.take();
  if (slot == nullptr) return false;
  slot->begin(next_position_, std::min(options_.batch, images_ - next_position_));
  next_position_ += slot->count;
  in_order_.push_back(slot);
  return true;
}

/// The next images of the epoch that no one has begun, waiting for a free slot if need be.
/// Nothing once the epoch is given out or stopped; with `until_front`, once the front is ready or
/// no slot is free.
std::optional<Loader::Epoch::Chunk> Loader::Epoch::claim(std::unique_lock<std::mutex>& lock,
                                                         bool until_front) {
  for (;;) {
    if (stopping_ || (until_front && front_ready())) return {};
    if (!in_order_.empty() && in_order_.back()->unclaimed > 0) {
      Slot* slot = in_order_.back();
      const int64_t begin = slot->count - slot->unclaimed;
      const int64_t end = std::min(begin + kChunk, slot->count);
      slot->unclaimed = slot->count - end;
      return Chunk{slot, begin, end};
    }
    if (begin_batch()) continue;
    if (until_front || next_position_ == images_) return {};
    pool_.changed.wait(lock);
  }
}

void Loader::Epoch::work(bool until_front) {
  for (;;) {
    std::unique_lock lock(pool_.mutex);
    std::optional<Chunk> chunk = claim(lock, until_front);
    if (!chunk) return;
    lock.unlock();
    fill(*chunk);
  }
}

void Loader::Epoch::fill(const Chunk& chunk) {
  for (int64_t i = chunk.begin; i < chunk.end; ++i) {
    if (stopping_) return;  // nobody will see this batch
    const int64_t position = chunk.slot->first_sample + i;
    try {
      Outcome outcome = fill_image(position, chunk.slot->pixels + i * image_bytes());
      chunk.slot->labels[i] = outcome.label;
      if (!outcome.skipped) continue;
      std::lock_guard lock(pool_.mutex);
      chunk.slot->skipped.push_back(std::move(*outcome.skipped));
    } catch (...) {
      // The images after it in this chunk can no longer matter.
      return finish(chunk, position, std::current_exception());
    }
  }
  finish(chunk, -1, nullptr);
}

void Loader::Epoch::finish(const Chunk& chunk, int64_t failed_at, std::exception_ptr failure) {
  std::lock_guard lock(pool_.mutex);
  Slot& slot = *chunk.slot;
  if (failure && (slot.failed_at < 0 || failed_at < slot.failed_at)) {
    slot.failed_at = failed_at;
    slot.failure = std::move(failure);
  }
  slot.unfinished -= chunk.end - chunk.begin;
  if (slot.unfinished == 0) pool_.changed.notify_all();
}

int64_t Loader::Epoch::checked_label(int64_t index) const {
  const int64_t label = dataset_.label(index), classes = dataset_.classes();
  expect<ValueError>(label >= 0 && label < classes, kTag,
                     "expected labels from 0 to {}, got {} for '{}'", classes - 1, label,
                     dataset_.describe(index));
  return label;
}

Outcome Loader::Epoch::fill_image(int64_t position, uint8_t* pixels) const {
  const int64_t all = dataset_.size(), first = options_.shuffle ? order_[position] : position;
  const int target = decode_target(options_.size, options_.augment);
  Outcome outcome;
  for (int64_t tries = 0; tries < all; ++tries) {
    const int64_t index = (first + tries) % all;
    outcome.label = checked_label(index);
    try {
      const RandomStream random(augment_key_, static_cast<uint64_t>(index));
      const ImagePart image = dataset_.read_part(index, target, [&](int width, int height) {
        return prepare_source(width, height, options_.size, options_.augment, random);
      });
      prepare(image, options_.size, options_.augment, random, pixels);
      return outcome;
    } catch (const FileError& error) {
      if (options_.bad_image == BadImage::fail) throw;
      if (outcome.skipped) continue;
      outcome.skipped = Skipped{position, index, error.what()};
      if (options_.bad_image == BadImage::replace) continue;
      outcome.label = kIgnoredLabel;
      std::fill_n(pixels, image_bytes(), uint8_t{0});
      return outcome;
    }
  }
  raise<FileError>(kTag, "none of the {} images can be read; the first error: {}", all,
                   outcome.skipped->reason);
}

Slot* Loader::Epoch::next(int64_t& waits) {
  if (failure_) std::rethrow_exception(failure_);
  std::unique_lock lock(pool_.mutex);
  const bool ready = front_ready();
  if (threads_.empty()) {
    lock.unlock();
    work(/*until_front=*/true);
    lock.lock();
  }
  // Nothing is begun and nothing can be: the caller has all the slots.
  auto stuck = [&] { return in_order_.empty() && pool_.free_slots() == 0; };
  auto over = [&] { return in_order_.empty() && next_position_ == images_; };
  pool_.changed.wait(lock, [&] { return front_ready() || over() || stuck(); });
  if (over()) return nullptr;
  expect<ValueError>(!stuck(), kTag,
                     "the caller holds all {} slots: release a Batch, or ask for more slots",
                     pool_.slots());
  Slot* slot = in_order_.front();
  if (slot->failure) {
    failure_ = slot->failure;
    lock.unlock();
    stop();
    std::rethrow_exception(failure_);
  }
  in_order_.erase(in_order_.begin());
  if (!ready) ++waits;
  return slot;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  expect<ValueError>(dataset_ != nullptr, kTag, "expected a dataset, got none");
  check_options(*dataset_, options_);
  pool_ = std::make_shared<SlotPool>(options_.slots, options_.batch, options_.size, options_.host);
}

Loader::~Loader() = default;

int64_t Loader::batches() const { return (images() + options_.batch - 1) / options_.batch; }

int64_t Loader::images() const {
  const int64_t all = dataset_->size();
  return options_.drop_last ? all - all % options_.batch : all;
}

int64_t Loader::host_bytes() const { return pool_->bytes(); }
const std::string& Loader::why_plain() const { return pool_->why_plain(); }

void Loader::start_epoch(int64_t epoch, int64_t first_batch) {
  expect<ValueError>(epoch >= 0, kTag, "expected an epoch of at least 0, got {}", epoch);
  expect<ValueError>(first_batch >= 0 && first_batch <= batches(), kTag,
                     "expected a first batch from 0 to {}, got {}", batches(), first_batch);
  // First the old one, so that its slots are free and two never run at once.
  epoch_.reset();
  const int64_t first = std::min(first_batch * options_.batch, images());
  epoch_ = std::make_unique<Epoch>(*dataset_, options_, *pool_, images(), epoch, first);
}

std::optional<Batch> Loader::next() {
  expect<ValueError>(epoch_ != nullptr, kTag, "call start_epoch before next");
  Slot* slot = epoch_->next(waits_);
  if (slot == nullptr) return {};
  std::ranges::sort(slot->skipped, {}, &Skipped::position);
  for (Skipped& skipped : slot->skipped)
    if (skipped_.insert(skipped.image).second) skip_reasons_.push_back(std::move(skipped.reason));
  return Batch(pool_, slot);
}

int64_t Loader::skipped_images() const { return static_cast<int64_t>(skipped_.size()); }

Batch::Batch(std::shared_ptr<SlotPool> pool, Slot* slot) : pool_(std::move(pool)), slot_(slot) {}

Batch::Batch(Batch&& other) noexcept
    : pool_(std::move(other.pool_)), slot_(std::exchange(other.slot_, nullptr)) {}

Batch& Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::move(other.pool_);
  slot_ = std::exchange(other.slot_, nullptr);
  return *this;
}

Batch::~Batch() { release(); }

void Batch::release() noexcept {
  if (slot_ == nullptr) return;
  slot_->copies.wait();
  {
    std::lock_guard lock(pool_->mutex);
    pool_->give(std::exchange(slot_, nullptr));
  }
  pool_->changed.notify_all();
}

int64_t Batch::count() const { return slot_->count; }
int Batch::size() const { return slot_->size; }
std::span<const uint8_t> Batch::pixels() const {
  return {slot_->pixels, static_cast<size_t>(slot_->count) * slot_->size * slot_->size * 3};
}
std::span<const int64_t> Batch::labels() const {
  return {slot_->labels, static_cast<size_t>(slot_->count)};
}
int64_t Batch::first_sample() const { return slot_->first_sample; }
detail::CopyMark& Batch::copies() const { return slot_->copies; }

}  // namespace brim::data
