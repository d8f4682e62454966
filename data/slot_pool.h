// The loader's host memory: a fixed number of slots, allocated once, each taken by one batch at a
// time. Internal to `data/loader.h`, whose callers hold a `Batch` instead. The pool outlives the
// loader while a Batch holds a slot. Its bytes are plain host memory in no account
// (memory/account.h): `Loader::host_bytes` says how many.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace brim::data::detail {

/// One batch's worth of host memory, and how far it is filled. All but the bytes themselves
/// belongs to the pool's mutex while workers fill the slot.
struct Slot {
  uint8_t* pixels = nullptr;
  int64_t* labels = nullptr;
  int size = 0;

  int64_t first_sample = 0, count = 0;
  /// Images that no worker has begun, and that none has finished.
  int64_t unclaimed = 0, unfinished = 0;

  /// Images of the dataset that could not be read and were replaced.
  std::vector<int64_t> skipped;
  /// The earliest position whose image was skipped, or failed, with the reason.
  int64_t skipped_at = -1, failed_at = -1;
  std::string skip_reason;
  std::exception_ptr failure;

  /// Makes the slot ready for `images` images from position `first` on.
  void begin(int64_t first, int64_t images);
};

class SlotPool {
 public:
  /// `slots` slots of `batch` images of size x size x 3 bytes, and their labels.
  SlotPool(int slots, int64_t batch, int size);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  int64_t bytes() const { return bytes_; }
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
  uint8_t* memory_ = nullptr;
  int64_t bytes_ = 0;
  std::vector<Slot> slots_;
  /// Has room for all slots, so that giving back never allocates.
  std::vector<Slot*> free_;
};

}  // namespace brim::data::detail
