#include "brim/data/slot_pool.h"

#include <cstddef>
#include <new>
#include <utility>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/memory/out_of_memory.h"

namespace brim::data::detail {
namespace {

// Rows of slots start on cache lines: workers of two slots never share one, and copies to a
// device start aligned.
constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

}  // namespace

void Slot::begin(int64_t first, int64_t images) {
  first_sample = first;
  count = unclaimed = unfinished = images;
  skipped.clear();
  failed_at = -1;
  failure = nullptr;
}

SlotPool::SlotPool(int slots, int64_t batch, int size, std::shared_ptr<memory::Account> host)
    : host_(std::move(host)), slots_(static_cast<size_t>(slots)) {
  const int64_t image_bytes = int64_t{size} * size * 3;
  // Checked by division, because the product may overflow.
  expect<ValueError>(batch <= kMaxBytes / (image_bytes + 8) / slots, "loader",
                     "{} slots of {} images of {} x {} pixels are more than {}", slots, batch, size,
                     size, format_bytes(kMaxBytes));
  const int64_t pixel_bytes = round_up(batch * image_bytes, kAlignment);
  const int64_t label_bytes = round_up(batch * int64_t{sizeof(int64_t)}, kAlignment);
  bytes_ = slots * (pixel_bytes + label_bytes);
  free_.reserve(slots_.size());
  uint8_t* at = take_bytes(batch, size);
  for (Slot& slot : slots_) {
    slot.size = size;
    slot.pixels = at;
    slot.labels = reinterpret_cast<int64_t*>(at + pixel_bytes);
    at += pixel_bytes + label_bytes;
    free_.push_back(&slot);
  }
}

SlotPool::~SlotPool() {
  if (host_ != nullptr) host_->release(block_);
  ::operator delete (plain_, std::align_val_t{kAlignment});
}

// Of the account, if it has room: a batch is as good from plain memory, only slower on its way.
uint8_t* SlotPool::take_bytes(int64_t batch, int size) {
  if (host_ != nullptr) {
    memory::SiteScope site({.op = "loader"});
    try {
      block_ = host_->allocate(bytes_, memory::Category::input);
      return static_cast<uint8_t*>(block_.address());
    } catch (const memory::OutOfMemory& error) {
      why_plain_ = memory::first_line(error.shortage());
    } catch (const DeviceError& error) {
      why_plain_ = error.what();
    }
    host_ = nullptr;
  }
  plain_ = static_cast<uint8_t*>(
      ::operator new (static_cast<size_t>(bytes_), std::align_val_t{kAlignment}, std::nothrow));
  expect<ValueError>(plain_ != nullptr, "loader",
                     "{} slots of {} images of {} x {} pixels want {}, more than the machine has",
                     slots(), batch, size, size, format_bytes(bytes_));
  return plain_;
}

Slot* SlotPool::take() {
  if (free_.empty()) return nullptr;
  Slot* slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace brim::data::detail
