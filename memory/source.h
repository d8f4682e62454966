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

/// What the bytes of a source come in.
struct Pages {
  /// Sizes asked of the source are multiples of this, which is one of 64.
  int64_t bytes = kAlignment;
  /// Whether what was given may come back page by page (`Source::allocate_pages`).
  bool apart = false;
};

class Source {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  explicit Source(int64_t capacity = kUnlimited, const Pages& pages = {})
      : capacity_(capacity), pages_(pages) {}
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// `bytes` on a 64-byte boundary, or null when they are beyond the capacity or what the system
  /// gives. `bytes` is a positive multiple of `pages().bytes`.
  void* allocate(int64_t bytes);
  /// Gives back what `allocate(bytes)` returned.
  void deallocate(void* address, int64_t bytes) noexcept;

  const Pages& pages() const { return pages_; }
  /// As `allocate`, on the boundary of a page, where `pages().apart`: each page may come back by
  /// itself, so that a planner need not keep the free ones between two that are held.
  void* allocate_pages(int64_t bytes);
  /// Gives back whole pages of what `allocate_pages` returned.
  void deallocate_pages(void* address, int64_t bytes) noexcept;

  int64_t capacity() const { return capacity_; }
  /// May be set below what is used: then nothing more is given until enough came back.
  void set_capacity(int64_t bytes) { capacity_ = bytes; }
  int64_t used() const { return used_; }
  /// Bytes that were given back and that the device, which failed, did not take. They are nobody's:
  /// the source gives so many less, until the device takes them after all.
  int64_t stranded() const { return stranded_; }
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

 protected:
  /// By so much; below 0 for what the device took.
  void strand(int64_t bytes) { stranded_ += bytes; }

 private:
  virtual void* take(int64_t bytes) = 0;
  virtual void give_back(void* address, int64_t bytes) noexcept = 0;
  // Of a source whose pages are apart.
  virtual void* take_pages(int64_t bytes) { return take(bytes); }
  virtual void give_back_pages(void* address, int64_t bytes) noexcept { give_back(address, bytes); }
  /// Before it is asked for more, where it has not all the bytes that it could have.
  virtual void recover() noexcept {}

  bool has_room(int64_t bytes);
  void* note_taken(void* address, int64_t bytes);

  int64_t capacity_, used_ = 0, peak_ = 0, stranded_ = 0;
  Pages pages_;
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

/// Addresses that must never be read or written; distinct for as long as they are held. In pages as
/// the device has them that the meta device stands for (base/stand_in.h).
class NullSource final : public Source {
 public:
  explicit NullSource(int64_t capacity = kUnlimited);
  bool has_bytes() const override { return false; }

 private:
  void* take(int64_t bytes) override;
  void give_back(void*, int64_t) noexcept override {}

  uintptr_t next_ = uintptr_t{1} << 40;
};

}  // namespace brim::memory
