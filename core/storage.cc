#include "brim/core/storage.h"

#include <utility>

namespace brim {

Storage::Storage(Device device, int64_t bytes, memory::Category category,
                 const memory::BufferShape& shape)
    : account_(memory::account(device)), block_(account_->allocate(bytes, category, shape)) {}

Storage::~Storage() { account_->release(block_); }

TapeHold::TapeHold(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {
  if (storage_) ++storage_->tape_holds_;
}

TapeHold& TapeHold::operator=(TapeHold&& other) noexcept {
  std::swap(storage_, other.storage_);
  return *this;
}

TapeHold::~TapeHold() {
  if (storage_) --storage_->tape_holds_;
}

}  // namespace brim
