// Where bytes come from: host memory, a GPU's (cuda_source.h), or nowhere (addresses without bytes,
// for the meta device). A source has a capacity: a host source with a small one behaves as a small
// GPU, which is how memory promises are tested. Planners sit above; nothing else calls a source.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "brim/memory/host_memory.h"
#include "brim/memory/stream.h"

namespace brim::memory {

/// Every buffer starts on this many bytes, and every size is rounded up to it.
inline constexpr int64_t kAlignment = 64;

class Source {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  explicit Source(int64_t capacity = kUnlimited) : capacity_(capacity) {}
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// `bytes` on a 64-byte boundary, or null when they are beyond the capacity or what the system
  /// gives. `bytes` is a positive multiple of 64.
  void* allocate(int64_t bytes);
  /// Gives back what `allocate(bytes)` returned.
  void deallocate(void* address, int64_t bytes) noexcept;

  int64_t capacity() const { return capacity_; }
  /// May be set below what is used: then nothing more is given until enough came back.
  void set_capacity(int64_t bytes) { capacity_ = bytes; }
  int64_t used() const { return used_; }
  /// The most that was used at any moment since `reset_peak`, also within one operation of a
  /// planner.
  int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = used_; }

  /// Is there anything at its addresses?
  virtual bool has_bytes() const { return true; }
  /// Copy between bytes that this source gave and the host's memory, after the work that the device
  /// has to do; done when they return. A source whose bytes are not the host's overrides both.
  virtual void copy_to_host(void* to, const void* from, int64_t bytes);
  virtual void copy_from_host(void* to, const void* from, int64_t bytes);

  /// Of the device that these bytes are on; null, as at first, where work is done when it returns.
  void set_stream_order(std::shared_ptr<StreamOrder> order) { order_ = std::move(order); }
  /// For planners: as in `StreamOrder`; nothing to do for a stream and itself.
  void wait(int waiting, int waited) noexcept {
    if (order_ != nullptr && waiting != waited) order_->wait(waiting, waited);
  }
  void finish(int stream) noexcept {
    if (order_ != nullptr) order_->finish(stream);
  }

 private:
  virtual void* take(int64_t bytes) = 0;
  virtual void give_back(void* address, int64_t bytes) noexcept = 0;

  int64_t capacity_, used_ = 0, peak_ = 0;
  std::shared_ptr<StreamOrder> order_;
};

/// Memory of this machine. Blocks of 4 MiB and more come from the system on huge pages where it
/// grants them: first touch of a fresh 4 KiB page costs more than most kernels.
///
/// The capacity is the machine's memory unless another one is given: more would end not in an
/// error but in the system killing the process.
class HostSource final : public Source {
 public:
  explicit HostSource(int64_t capacity = host_memory()) : Source(capacity) {}

 private:
  void* take(int64_t bytes) override;
  void give_back(void* address, int64_t bytes) noexcept override;
};

/// Addresses that must never be read or written; distinct for as long as they are held.
class NullSource final : public Source {
 public:
  using Source::Source;
  bool has_bytes() const override { return false; }

 private:
  void* take(int64_t bytes) override;
  void give_back(void*, int64_t) noexcept override {}

  uintptr_t next_ = uintptr_t{1} << 40;
};

}  // namespace brim::memory
