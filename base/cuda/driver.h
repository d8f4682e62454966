// The driver's calls for one GPU's memory, as a table that tests replace by one on the host's
// memory (tests/support/fake_driver.h), whose calls fail when they are told to: a GPU cannot be
// made to. For the account's sources (memory/cuda_virtual_source.h, memory/cuda_source.h) and for
// nobody else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "brim/base/device.h"

namespace brim::cuda {

/// Each call returns 0 or the driver's error (CUresult, cudaError_t: their numbers agree).
class Driver {
 public:
  static constexpr int kOutOfMemory = 2, kNotSupported = 801;

  virtual ~Driver() = default;

  /// Bytes of the GPU that nobody holds, and all that it has (cuMemGetInfo).
  virtual int memory_info(int64_t* free, int64_t* total) = 0;

  // Memory and the addresses that it is seen at, each by itself. All sizes and addresses are
  // multiples of the granularity.

  /// What physical memory comes in (cuMemGetAllocationGranularity). `kNotSupported` where the GPU
  /// has no virtual memory management.
  virtual int granularity(int64_t* bytes) = 0;
  /// Addresses without memory (cuMemAddressReserve).
  virtual int reserve_addresses(uintptr_t* address, int64_t bytes) = 0;
  virtual int free_addresses(uintptr_t address, int64_t bytes) = 0;
  /// Memory without an address (cuMemCreate).
  virtual int create(uint64_t* handle, int64_t bytes) = 0;
  /// The memory is free when it is mapped nowhere (cuMemRelease).
  virtual int release(uint64_t handle) = 0;
  /// All of the memory, at reserved addresses (cuMemMap). Not to be used before `allow_access`.
  virtual int map(uintptr_t address, int64_t bytes, uint64_t handle) = 0;
  virtual int allow_access(uintptr_t address, int64_t bytes) = 0;
  /// What one `map` mapped. Nothing may be at work on it (cuMemUnmap).
  virtual int unmap(uintptr_t address, int64_t bytes) = 0;

  // Memory with an address.

  virtual int allocate(uintptr_t* address, int64_t bytes) = 0;  ///< cudaMalloc
  /// Waits for the GPU's work (cudaFree).
  virtual int free(uintptr_t address) = 0;
  /// For the work of the default stream, in its order (cudaMallocAsync).
  virtual int allocate_in_stream(uintptr_t* address, int64_t bytes) = 0;
  virtual int free_in_stream(uintptr_t address) = 0;

  /// After the work of the default stream; done when they return.
  virtual int copy_to_host(void* to, uintptr_t from, int64_t bytes) = 0;
  virtual int copy_from_host(uintptr_t to, const void* from, int64_t bytes) = 0;

  /// "out of memory (cudaErrorMemoryAllocation)".
  virtual std::string describe(int error) const = 0;
};

/// Of a GPU that is here. Throws `DeviceError`.
std::shared_ptr<Driver> driver_of(Device device);

}  // namespace brim::cuda
