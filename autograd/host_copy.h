// A storage that saved tensors hold, on its way to the host and back. It is in one of five places:
//
//   device    as any other; it is watched
//   leaving   being copied to the host, its device bytes still there
//   host      its device bytes were released
//   arriving  it has device bytes again, which are being copied into
//   both      on the device, and in the host until its last reader is gone
//
// All values over a storage go together, so views need no copy of their own. When it goes where is
// decided by `CopyQueues`, which it belongs to, and those who call it: offload.h in forward,
// fetch.h in backward.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "brim/autograd/offload.h"
#include "brim/core/storage.h"

namespace brim::autograd {

/// Copies under way, at most two each way: beginning a third finishes the oldest. Shared by an
/// `Offload` and its copies, which may outlive it.
class CopyQueues {
 public:
  CopyQueues(Device device, std::shared_ptr<memory::Account> host,
             std::unique_ptr<CopyEngine> engine);

  /// Begins to copy to the host. Where that has no room the storage stays, and is counted.
  void send(const std::shared_ptr<HostCopy>& copy);
  /// Begins to copy to the device. Throws `memory::OutOfMemory`, and nothing has changed but that
  /// an older copy may be finished.
  void fetch(const std::shared_ptr<HostCopy>& copy);
  bool may_fetch_ahead();
  /// Finishes all that is on its way to the host.
  void finish_sending() noexcept;

  Device device() const { return device_; }
  memory::Account& host() const { return *host_; }
  CopyEngine& engine() const { return *engine_; }
  const OffloadStats& stats() const { return stats_; }

 private:
  using Queue = std::deque<std::weak_ptr<HostCopy>>;  // the oldest first
  static void forget_done(Queue& queue);
  static void make_place(Queue& queue);

  Device device_;
  std::shared_ptr<memory::Account> host_;
  std::unique_ptr<CopyEngine> engine_;
  Queue sending_, fetching_;
  OffloadStats stats_;
};

class HostCopy : public std::enable_shared_from_this<HostCopy> {
 public:
  enum class Place : uint8_t { device, leaving, host, arriving, both };

  HostCopy(std::shared_ptr<CopyQueues> queues, const std::shared_ptr<Storage>& storage);
  /// Finishes what is under way, and gives the host's bytes back.
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  Place place() const { return place_; }
  bool is_under_way() const { return place_ == Place::leaving || place_ == Place::arriving; }
  bool is_of(const Storage& storage) const { return storage_.lock().get() == &storage; }
  /// A value over the storage, which holds it; until `remove`.
  void add(Value& value) { values_.push_back(&value); }
  void remove(Value& value) noexcept { std::erase(values_, &value); }

  /// Do the values alone hold the storage, which nobody has written to since they were saved?
  bool is_forward_dead() const;
  /// The copy under way is done. What left has no device bytes any more, but where somebody wrote
  /// to it in the meantime: then it stays as it is.
  void finish() noexcept;
  /// What is leaving is wanted: it stays on the device, and its copy too.
  void stay();
  /// Begins to fetch what is in the host alone, unless as many as may be are under way. Throws
  /// `memory::OutOfMemory`.
  void fetch_ahead();
  /// The bytes are on the device when it returns. Throws `memory::OutOfMemory`.
  void bring();
  /// What is in both places gives its device bytes back.
  void put_back() noexcept;

 private:
  friend class CopyQueues;
  bool are_values_current() const;
  bool is_overwritten() const;
  void begin_sending();
  void begin_fetching();
  void leave_device() noexcept;

  std::shared_ptr<CopyQueues> queues_;
  Place place_ = Place::device;
  std::weak_ptr<Storage> storage_;      // on the device
  std::shared_ptr<Storage> under_way_;  // the same, for as long as a copy needs it
  memory::Block block_;                 // in the host
  uint64_t number_ = 0;                 // of the copy under way
  std::vector<Value*> values_;
  // Of the storage: what it is made again with.
  int64_t bytes_ = 0;
  memory::Category category_ = memory::Category::activations;
  memory::BufferShape shape_;
  memory::Site site_;
};

}  // namespace brim::autograd
