// The one ledger of a device's bytes, above every planner: live bytes by category, peaks, a cap,
// fault injection and recording. Every tensor byte and every byte of scratch passes through it:
//
//   reserved = live + cached + fragmented, after every operation.
//
// A planner that breaks this is answered with `InternalError`: by the operation itself, and after a
// release, which cannot throw, by the next one. So is one that hands out an address off a 64-byte
// boundary, and where `checking` is on, one that hands out bytes that someone holds.
// Sizes are rounded up to 64 bytes before anything is counted. Thread safe.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "brim/base/device.h"
#include "brim/memory/category.h"
#include "brim/memory/live_buffers.h"
#include "brim/memory/planner.h"
#include "brim/memory/source.h"

namespace brim::memory {

class LiveRanges;

/// Bytes that someone holds. Give it back to the account it came from.
struct Block {
  int64_t bytes = 0;  ///< rounded up; 0 for the empty block, which has no address
  Category category = Category::other;
  LiveBuffer* live = nullptr;  ///< what the account knows of it; null for the empty block
  uint64_t id = 0;             ///< that of `live`, while the block is held

  /// Another one after `Account::replan`.
  void* address() const { return live == nullptr ? nullptr : live->address; }
};

struct AccountStats {
  int64_t live = 0;
  int64_t cached = 0;
  int64_t fragmented = 0;
  int64_t reserved = 0;
  int64_t peak_live = 0;
  int64_t peak_reserved = 0;  ///< at any moment, also within one request
  int64_t requests = 0;       ///< since the account was made, under all its planners
  int64_t mismatches = 0;     ///< of these, not served as planned (memory/arena_planner.h)
  BytesByCategory by_category{};
  BytesByCategory by_category_at_peak{};  ///< at the moment of `peak_live`
};

/// Sees every allocation and release, and the parts of a program, in order, under the account's
/// lock: it must not allocate from the account. `block.live` tells what is known of a buffer.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void allocated(const Block& block) = 0;
  virtual void released(const Block& block) noexcept = 0;
  /// `block` has its new category.
  virtual void recategorized(const Block& block, Category before) noexcept {
    (void)block, (void)before;
  }
  /// `block` has a new site.
  virtual void resited(const Block& block) noexcept { (void)block; }
  /// All that is held may have another address (`Account::replan`); `block.live` stays.
  virtual void moved() noexcept {}
  virtual void began_step() {}
  virtual void ended_step() noexcept {}
  virtual void began_section(const Section&) {}
  virtual void ended_section() noexcept {}
};

/// Planners by name: "direct" or "caching"; throws `ValueError` with the nearest name otherwise.
MakePlanner planner_named(const std::string& name);

struct Shortage;
class Relocation;

class Account {
 public:
  Account(Device device, std::unique_ptr<Source> source, const MakePlanner& make_planner);
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  /// `bytes` (0 or more), rounded up to 64 and on a 64-byte boundary. Throws `OutOfMemory`, after
  /// it asked who can free some (memory/reclaimer.h); live bytes are then as before, or fewer, and
  /// cached ones may have gone back to the source.
  /// The buffer is noted with the site and the stream of this thread, and with `shape`.
  Block allocate(int64_t bytes, Category category, const BufferShape& shape = {});
  void release(const Block& block) noexcept;
  /// Moves a held block to another category, for a tensor that changed its role.
  void recategorize(Block& block, Category category) noexcept;
  /// Says of a held block, in messages and snapshots, who asked for it.
  void set_site(const Block& block, const Site& site) noexcept;

  /// Moves all that is held to a new planner: to the plan for a smaller budget, say, midway in a
  /// training. `set_cap` first: reserved bytes never exceed the larger of before and after, as all
  /// go back to the source before the planner is made. Tensors keep their values, and buffers all
  /// that is noted of them but the address. What must not be kept across it are addresses, those of
  /// `Tensor::data()` included; nobody else may use tensors of the account meanwhile, and streams
  /// that use bytes of another one are ordered before. Takes the live bytes once more of the
  /// host's memory, until it returns. It is no request: counts, peaks and mismatches go on.
  ///
  /// Throws and changes nothing: `ValueError` within a step or a section; `std::bad_alloc` where
  /// the host has no room for the values. Throws what `make_planner` throws, and `OutOfMemory`
  /// where its planner refuses a buffer: the planner is then a new one of the kind before, or,
  /// where that has no room, a direct one which holds the live bytes, if need be beyond the cap.
  /// The values are as they were. They are lost, and `DeviceError` says so, only where the system
  /// itself no longer gives the live bytes that it just got back, or the device fails as it copies.
  void replan(const MakePlanner& make_planner);

  AccountStats stats() const;
  PlannerStats planner_stats() const;
  Device device() const { return device_; }
  std::string planner_name() const;
  /// As its planner says (`Planner::reserves_steps`).
  bool reserves_steps() const;
  /// That the planner follows; null for none.
  std::shared_ptr<const Plan> plan() const;
  /// Which requests did not follow the plan of the planner that is there now, and which buffers
  /// were in its way; "" for none.
  std::string mismatch_report() const;

  /// Reserved bytes never go beyond the cap; `Source::kUnlimited` for none.
  void set_cap(int64_t bytes);
  int64_t cap() const;
  /// The nth request from now (1 is the next) is refused as if there were no room; 0 disarms.
  void fail_nth(int64_t n);
  void reset_peak();
  void empty_cache();
  /// Whether every placement is compared with all that is held, and every release, with the buffers
  /// named in the error: on from the start in builds without NDEBUG, which are for finding faults.
  void set_checking(bool on);
  bool checking() const;
  /// Throws `OutOfMemory` for a library that got no memory of its own, as the account stands.
  [[noreturn]] void raise_library_shortage() const;
  /// Null to stop. The recorder must outlive its time here.
  void set_recorder(Recorder* recorder);

  /// Calls `body` with every buffer that is held, oldest first, under the account's lock.
  void for_each_live(const std::function<void(const LiveBuffer&)>& body) const;

  /// Tell the planner and the recorder where a training step begins and ends; `TrainStep` does.
  void begin_step();
  void end_step() noexcept;
  /// The same for its parts and for evaluations; `SectionScope` does.
  void begin_section(const Section& section);
  void end_section() noexcept;

 private:
  Shortage shortage() const;
  /// What a request is refused with.
  struct Refusal {
    bool injected = false;
    int64_t live_limit = Source::kUnlimited;
  };
  [[noreturn]] void refuse(const Request& request, const BufferShape& shape,
                           const Refusal& refusal) const;
  bool identity_holds() const;
  void check_identity() const;
  /// As `check_identity`, where nothing may be thrown: the next operation throws.
  void note_identity() noexcept;
  std::exception_ptr settle(const MakePlanner& make_planner, Relocation& relocation) noexcept;
  bool settle_beyond_cap(Relocation& relocation) noexcept;
  void lose_values();
  Placement place(const Request& request, const BufferShape& shape, bool injected,
                  std::unique_lock<std::mutex>& lock);
  Block note(uint64_t id, const Placement& placement, const Request& request,
             const BufferShape& shape);
  void check_placement(const Block& block, const Request& request);
  void note_peak_live();
  void give_back(const Block& block) noexcept;

  const Device device_;
  mutable std::mutex mutex_;
  std::unique_ptr<Source> source_;
  MakePlanner make_planner_;
  std::unique_ptr<Planner> planner_;
  Recorder* recorder_ = nullptr;
  const char* breach_ = nullptr;  // what was found where nothing may be thrown
  LiveBuffers buffers_;
  std::unique_ptr<LiveRanges> ranges_;  // null when not checking
  std::vector<Section> sections_;       // that run now, the innermost last
  int steps_ = 0;                       // that run now
  int64_t live_ = 0, peak_live_ = 0, requests_ = 0, fail_in_ = 0;
  int64_t mismatches_before_ = 0;  // under planners that are gone
  BytesByCategory by_category_{}, by_category_at_peak_{};
};

/// The account that new tensors on `device` charge: the caching planner over host memory for
/// `cpu`, over a GPU's for `cuda:N`, over a null source for `meta`. Throws `DeviceError` for a GPU
/// that is not here, and says why.
std::shared_ptr<Account> account(Device device);

/// Replaces the account of its device until the scope ends. Tensors made inside give their bytes
/// back to this account, whenever they die. Not for use from two threads at once.
class AccountScope {
 public:
  explicit AccountScope(std::shared_ptr<Account> account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  std::shared_ptr<Account> before_;
};

/// A section of the program that runs on an account, until the scope ends.
class SectionScope {
 public:
  SectionScope(std::shared_ptr<Account> account, const Section& section);
  ~SectionScope();
  SectionScope(const SectionScope&) = delete;
  SectionScope& operator=(const SectionScope&) = delete;

 private:
  std::shared_ptr<Account> account_;
};

/// A host account with the given planner and capacity: a small GPU, for tests.
std::shared_ptr<Account> capped_host_account(const std::string& planner,
                                             int64_t capacity = host_memory());

/// `Account::raise_library_shortage` of the account of `device`.
[[noreturn]] void raise_library_shortage(Device device);

}  // namespace brim::memory
