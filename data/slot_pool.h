// The loader's host memory: a fixed number of slots, allocated once, each taken by one batch at a
// time. Internal to `data/loader.h`, whose callers hold a `Batch` instead. The pool outlives the
// loader while a Batch holds a slot. Its bytes are of the account that it is given, which for
// batches on their way to a GPU has pinned memory, else plain memory in no account:
// `Loader::host_bytes` says how many.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "brim/data/copy_mark.h"
#include "brim/memory/account.h"

namespace brim::data::detail {

/// An image of the dataset that could not be read, at a position of the epoch's order.
struct Skipped {
  int64_t position, image;
  std::string reason;
};

/// One batch's worth of host memory, and how far it is filled. All but the bytes themselves
/// belongs to the pool's mutex while workers fill the slot.
struct Slot {
  uint8_t* pixels = nullptr;
  int64_t* labels = nullptr;
  int size = 0;

  /// Of the copies to a GPU that are under way. Belongs to who holds the Batch.
  CopyMark copies = {};

  int64_t first_sample = 0, count = 0;
  /// Images that no worker has begun, and that none has finished.
  int64_t unclaimed = 0, unfinished = 0;

  /// Images of the dataset that could not be read and were skipped, in no order.
  std::vector<Skipped> skipped;
  /// The earliest position whose image failed, with the reason.
  int64_t failed_at = -1;
  std::exception_ptr failure;

  /// Makes the slot ready for `images` images from position `first` on.
  void begin(int64_t first, int64_t images);
};

class SlotPool {
 public:
  /// `slots` slots of `batch` images of size x size x 3 bytes, and their labels, of `host` where
  /// it is given and has room for them all.
  SlotPool(int slots, int64_t batch, int size, std::shared_ptr<memory::Account> host);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  int64_t bytes() const { return bytes_; }
  /// Why they are not of the account that was given; "" where they are, or none was.
  const std::string& why_plain() const { return why_plain_; }
  int slots() const { return static_cast<int>(slots_.size()); }

  /// Slots that no batch has. The caller holds `mutex`.
  int free_slots() const { return static_cast<int>(free_.size()); }
  /// Takes a free slot, or null. The caller holds `mutex`.
  Slot* take();
  /// Gives a slot back. The caller holds `mutex`, and wakes the waiting.
  void give(Slot* slot) noexcept { free_.push_back(slot); }

  std::mutex mutex;
  /// Told of every change that a worker or `next` may wait for.
  std::condition_variable changed;

 private:
  uint8_t* take_bytes(int64_t batch, int size);

  std::shared_ptr<memory::Account> host_;  // null for plain memory
  memory::Block block_;                    // of `host_`
  std::string why_plain_;
  uint8_t* plain_ = nullptr;
  int64_t bytes_ = 0;
  std::vector<Slot> slots_;
  /// Has room for all slots, so that giving back never allocates.
  std::vector<Slot*> free_;
};

}  // namespace brim::data::detail
