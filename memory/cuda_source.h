// A GPU's memory as a source, under the same planners and account as the host's: each request is a
// cudaMalloc, or where it is asked for a cudaMallocAsync. `cuda_source` takes virtual memory
// (cuda_virtual_source.h) where the GPU has it, and this where not. A budget is set as the
// account's cap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "brim/base/device.h"
#include "brim/memory/source.h"

namespace brim::cuda {
class Driver;
}

namespace brim::memory {

struct CudaSourceOptions {
  /// cudaMallocAsync: what comes back is taken again without a word to the driver, and may stay
  /// with the runtime's pool.
  bool in_stream = false;
};

/// Its capacity is what the GPU has free when the source is made, after its context: more belongs
/// to others; and less, as soon as they took some of it and a request was refused: who learns that
/// they gave it back says so (`Account::set_cap`). A call that fails for anything but want of
/// memory throws `DeviceError`; memory that the driver does not take back is `stranded`, until it
/// does.
class CudaSource final : public Source {
 public:
  explicit CudaSource(std::shared_ptr<cuda::Driver> driver, const CudaSourceOptions& options = {});
  /// Gives back once more what is stranded.
  ~CudaSource() override;
  void copy_to_host(void* to, const void* from, int64_t bytes) override;
  void copy_from_host(void* to, const void* from, int64_t bytes) override;

 private:
  struct Piece {
    uintptr_t address;
    int64_t bytes;
  };

  void* take(int64_t bytes) override;
  void give_back(void* address, int64_t bytes) noexcept override;
  void recover() noexcept override;
  int free(uintptr_t address) noexcept;

  std::shared_ptr<cuda::Driver> driver_;
  CudaSourceOptions options_;
  int64_t out_ = 0;              // pieces
  std::vector<Piece> stranded_;  // with room for all that are out
};

/// Whether BRIM_CUDA_MALLOC=1 asks that each request of a GPU's memory be a cudaMalloc of its own,
/// which the default account then takes it by: within larger pieces, a tool that looks for accesses
/// out of bounds (compute-sanitizer) finds none.
bool asks_for_each();

/// The memory of a GPU that is here, in the order of its streams. Throws `DeviceError` where there
/// is none, and says why.
std::unique_ptr<Source> cuda_source(Device device);

/// What `driver` has free, in whole pages. Throws `DeviceError`.
int64_t free_bytes(cuda::Driver& driver, int64_t page);

/// The capacity of a source that the driver refused memory which it should have had: others hold
/// it. Never more than before.
int64_t capacity_left(const Source& source, cuda::Driver& driver) noexcept;

/// Throws `DeviceError`, with the call and what the driver says of it, for any error but 0.
void check_driver(const cuda::Driver& driver, int error, const char* call);

}  // namespace brim::memory
