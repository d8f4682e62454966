// Offloading: saved tensors that wait in host memory, and are back when backward comes to them. A
// policy says which (`Fate::offload`, save_policy.h; `OffloadAll`), an `Offload` is the engine that
// moves them: one for a training, its host bytes in an account of their own. A value without an
// engine is just kept. `TrainerOptions::offload` opens one for a training; by hand:
//
//   autograd::Offload engine(Device::cpu(), autograd::offload_host(Device::cpu()));
//   autograd::OffloadScope scope(&engine);
//
// A value leaves once only the tape holds its storage: whether it does is looked at before each
// recorded call, and when backward begins (fetch.h says how it comes back). Two copies may be under
// way; a third finishes the oldest, and only what is finished gives its device bytes back. So what
// is where follows from the order of calls alone, never from how long a copy takes, and a rehearsal
// on the meta device predicts both accounts to the byte.
//
// A host without room is no error: the storage stays on the device for good and is counted
// (`OffloadStats::refused`). A rehearsal with a host of the same capacity refuses the same ones, so
// what it predicts for the device holds. Its bits a value keeps wherever it is.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "brim/autograd/copy_engine.h"
#include "brim/memory/account.h"

namespace brim::autograd {

class CopyQueues;
class HostCopy;
class Value;

struct OffloadStats {
  int64_t copies_out = 0, copies_in = 0;  ///< begun since the engine was made
  int64_t bytes_out = 0, bytes_in = 0;
  int64_t refused = 0;  ///< storages that stayed on the device since the host had no room
};

class Offload {
 public:
  /// For tensors on `device`, for one thread. Their copies are charged to `host`; without an
  /// `engine` `copy_engine` makes one. Throws what that throws.
  Offload(Device device, std::shared_ptr<memory::Account> host,
          std::unique_ptr<CopyEngine> engine = nullptr);

  memory::Account& host() const;
  const OffloadStats& stats() const;

  /// For the tape: the value, if the tape holds it, leaves when it may.
  void watch(const std::shared_ptr<Value>& value);
  /// Begins to copy what is only held by the tape by now.
  void look();
  /// For backward: all that leaves has left.
  void finish_sending() noexcept;

 private:
  std::shared_ptr<CopyQueues> queues_;
  std::deque<std::weak_ptr<HostCopy>> waiting_;  // in the order in which they were watched
};

/// The engine of this thread; null for none.
Offload* offload();

/// Sets it until the scope ends; null: what is fated to offload is kept.
class OffloadScope {
 public:
  explicit OffloadScope(Offload* engine);
  ~OffloadScope();
  OffloadScope(const OffloadScope&) = delete;
  OffloadScope& operator=(const OffloadScope&) = delete;

 private:
  Offload* before_;
};

/// The host account for tensors on `device`: that of an `OffloadHostScope` of this thread, or a new
/// one of `bytes`, under the caching planner. 0: the machine's memory. For the meta device it has
/// no bytes, but may hold as many.
std::shared_ptr<memory::Account> offload_host(Device device, int64_t bytes = 0);

/// What engines that are made on this thread charge until the scope ends, to measure it or to
/// inject faults: those for the meta device where it is an account of that, else all others. An
/// engine for a given number of bytes caps it.
class OffloadHostScope {
 public:
  explicit OffloadHostScope(std::shared_ptr<memory::Account> host);
  ~OffloadHostScope();
  OffloadHostScope(const OffloadHostScope&) = delete;
  OffloadHostScope& operator=(const OffloadHostScope&) = delete;

 private:
  std::shared_ptr<memory::Account> before_;
};

}  // namespace brim::autograd
