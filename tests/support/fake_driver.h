// A GPU's driver on the host's memory: of any size, with pages of any size, whose calls can be told
// to fail, and whose memory others can take. It holds its caller to the driver's rules, and keeps
// the first breach: what is mapped twice, unmapped in part or given back while a kernel of the
// simulated device still uses it. What it cannot show: the times of a real one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "brim/base/cuda/driver.h"
#include "brim/tests/support/simulated_device.h"

namespace brim::testing {

struct FakeDriverOptions {
  int64_t total = int64_t{64} << 20;
  /// 0: a GPU without virtual memory.
  int64_t granularity = int64_t{2} << 20;
  std::shared_ptr<SimulatedDevice> device = nullptr;  ///< null: work is done at once
};

class FakeDriver final : public cuda::Driver {
 public:
  static constexpr int kUnknown = 999;

  explicit FakeDriver(const FakeDriverOptions& options = {}) : options_(options) {}
  ~FakeDriver() override;

  /// The nth call from now fails with this error, and does nothing; 0 for none.
  void fail_nth(int64_t n, int error = kUnknown) {
    fail_in_ = n;
    error_ = error;
  }
  /// All calls that give back fail, as long as it is on.
  void refuse_returns(bool on) { refuses_returns_ = on; }
  /// Bytes that other programs hold.
  void set_others(int64_t bytes) { others_ = bytes; }
  int64_t calls() const { return calls_; }
  /// Which of them `fail_nth` made fail last, by CUDA's name; of the memory in a stream too.
  const std::string& failed_call() const { return failed_call_; }
  /// Bytes that the caller holds, mapped or not.
  int64_t held() const { return held_; }
  /// The lowest address where something is mapped; 0 for none.
  uintptr_t first_mapping() const { return mappings_.empty() ? 0 : mappings_.begin()->first; }
  /// "" while the rules are kept.
  const std::string& breach() const { return breach_; }

  int memory_info(int64_t* free, int64_t* total) override;
  int granularity(int64_t* bytes) override;
  int reserve_addresses(uintptr_t* address, int64_t bytes) override;
  int free_addresses(uintptr_t address, int64_t bytes) override;
  int create(uint64_t* handle, int64_t bytes) override;
  int release(uint64_t handle) override;
  int map(uintptr_t address, int64_t bytes, uint64_t handle) override;
  int allow_access(uintptr_t address, int64_t bytes) override;
  int unmap(uintptr_t address, int64_t bytes) override;
  int allocate(uintptr_t* address, int64_t bytes) override;
  int free(uintptr_t address) override;
  int allocate_in_stream(uintptr_t* address, int64_t bytes) override {
    return allocate(address, bytes);
  }
  int free_in_stream(uintptr_t address) override { return free(address); }
  int copy_to_host(void* to, uintptr_t from, int64_t bytes) override;
  int copy_from_host(uintptr_t to, const void* from, int64_t bytes) override;
  std::string describe(int error) const override { return "error " + std::to_string(error); }

 private:
  struct Memory {
    int64_t bytes = 0;
    uintptr_t mapped_at = 0;
    bool released = false;
  };

  int enter(const char* call, bool returns = false);
  int refuse(const std::string& breach);
  bool is_reserved(uintptr_t address, int64_t bytes) const;
  bool is_whole(uintptr_t address, int64_t bytes) const;
  void forget(uint64_t handle);

  const FakeDriverOptions options_;
  std::map<uintptr_t, int64_t> addresses_;  // reserved at once
  std::map<uint64_t, Memory> memory_;       // by handle
  std::map<uintptr_t, uint64_t> mappings_;  // handle by address
  std::map<uintptr_t, int64_t> allocations_;
  uint64_t handles_ = 0;
  int64_t held_ = 0, others_ = 0, calls_ = 0, fail_in_ = 0;
  int error_ = 0;
  bool refuses_returns_ = false;
  std::string breach_, failed_call_;
};

}  // namespace brim::testing
