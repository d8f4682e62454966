// The bytes under tensors. A storage takes its bytes from the account of its device and returns
// them by itself. Tensors (handles held by users) and holds of the tape are counted apart: when
// only the tape still holds a storage, nobody can reach its values but backward.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "brim/memory/account.h"

namespace brim {

class Storage {
 public:
  /// Throws `memory::OutOfMemory`.
  Storage(Device device, int64_t bytes, memory::Category category,
          const memory::BufferShape& shape = {});
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Another one after `Account::replan`.
  void* data() const { return block_.address(); }
  int64_t bytes() const { return block_.bytes; }
  Device device() const { return account_->device(); }
  /// Whose bytes they are.
  const memory::Account& account() const { return *account_; }
  memory::Category category() const { return block_.category; }
  /// Who asked for the bytes; null for none.
  const memory::LiveBuffer* live() const { return block_.live; }
  void set_category(memory::Category category) { account_->recategorize(block_, category); }
  /// Says in messages and snapshots who made it.
  void set_site(const memory::Site& site) { account_->set_site(block_, site); }

  /// Raised by every kernel that writes, and by functions that fill a new tensor; what saved
  /// tensors check. A write through `data()` is not seen.
  uint32_t version() const { return version_; }
  /// The kernel or function that wrote last.
  const char* last_writer() const { return last_writer_; }
  void note_write(const char* writer) {
    ++version_;
    last_writer_ = writer;
  }

  /// Tensors over this storage.
  int handles() const { return handles_; }
  /// Saved tensors over this storage.
  int tape_holds() const { return tape_holds_; }

 private:
  friend struct TensorBody;
  friend class TapeHold;

  std::shared_ptr<memory::Account> account_;
  memory::Block block_;
  uint32_t version_ = 0;
  std::atomic<int> handles_ = 0, tape_holds_ = 0;
  const char* last_writer_ = "";
};

/// Keeps a storage alive for the tape, counted apart from tensors.
class TapeHold {
 public:
  TapeHold() = default;
  explicit TapeHold(std::shared_ptr<Storage> storage);
  TapeHold(TapeHold&& other) noexcept = default;
  TapeHold& operator=(TapeHold&& other) noexcept;
  ~TapeHold();

  const std::shared_ptr<Storage>& storage() const { return storage_; }

 private:
  std::shared_ptr<Storage> storage_;
};

}  // namespace brim
