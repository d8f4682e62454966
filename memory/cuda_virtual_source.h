// A GPU's memory by its virtual memory management: addresses are reserved once, and memory is
// mapped there as it is needed and unmapped when it comes back, page by page where the planner
// wants it so. Free pages are then never of the wrong address: what is free is enough for any
// request of as many bytes (docs/virtual_memory.md). Make it with `cuda_source` (cuda_source.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "brim/memory/source.h"

namespace brim::cuda {
class Driver;
}

namespace brim::memory {

/// As `CudaSource` in all but where addresses come from. A piece asked for as a whole is one piece
/// of the driver's; pages are one each.
class CudaVirtualSource final : public Source {
 public:
  explicit CudaVirtualSource(std::shared_ptr<cuda::Driver> driver);
  ~CudaVirtualSource() override;
  void copy_to_host(void* to, const void* from, int64_t bytes) override;
  void copy_from_host(void* to, const void* from, int64_t bytes) override;

 private:
  enum class State : uint8_t {
    free,    ///< nothing is mapped
    mapped,  ///< somebody's
    stuck,   ///< nobody's, and the driver did not unmap it
  };
  struct Stretch {
    int64_t bytes = 0;
    State state = State::free;
    uint64_t memory = 0;            ///< the driver's handle, where something is mapped
    bool begins_addresses = false;  ///< at the start of what was reserved at once
  };
  using Stretches = std::map<uintptr_t, Stretch>;
  struct Memory {
    uint64_t handle;
    int64_t bytes;
  };

  void* take(int64_t bytes) override { return take_in_pieces(bytes, bytes); }
  void* take_pages(int64_t bytes) override { return take_in_pieces(bytes, pages().bytes); }
  void give_back(void* address, int64_t bytes) noexcept override;
  void give_back_pages(void* address, int64_t bytes) noexcept override {
    give_back(address, bytes);
  }
  void recover() noexcept override;

  void* take_in_pieces(int64_t bytes, int64_t piece);
  int add_addresses(int64_t bytes);
  Stretches::iterator find_free(int64_t bytes);
  void cut(Stretches::iterator place, int64_t bytes, int64_t piece);
  int map(Stretches::iterator place, const char*& call);
  void unmap(Stretches::iterator place) noexcept;
  void release(const Memory& memory) noexcept;
  void join_free(uintptr_t begin, uintptr_t end) noexcept;

  std::shared_ptr<cuda::Driver> driver_;
  Stretches stretches_;             // of all addresses
  std::vector<Memory> unreleased_;  // unmapped, and the driver did not take it; with room for all
  int64_t mapped_ = 0;              // stretches
};

}  // namespace brim::memory
