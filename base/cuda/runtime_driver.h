// What CUDA's runtime has of the driver's calls: all but virtual memory, which libcuda alone has.
#pragma once

#include "brim/base/cuda/driver.h"

namespace brim::cuda {

class RuntimeDriver : public Driver {
 public:
  explicit RuntimeDriver(Device device) : device_(device) {}

  int memory_info(int64_t* free, int64_t* total) override;
  int granularity(int64_t*) override { return kNotSupported; }
  int reserve_addresses(uintptr_t*, int64_t) override { return kNotSupported; }
  int free_addresses(uintptr_t, int64_t) override { return kNotSupported; }
  int create(uint64_t*, int64_t) override { return kNotSupported; }
  int release(uint64_t) override { return kNotSupported; }
  int map(uintptr_t, int64_t, uint64_t) override { return kNotSupported; }
  int allow_access(uintptr_t, int64_t) override { return kNotSupported; }
  int unmap(uintptr_t, int64_t) override { return kNotSupported; }
  int allocate(uintptr_t* address, int64_t bytes) override;
  int free(uintptr_t address) override;
  int allocate_in_stream(uintptr_t* address, int64_t bytes) override;
  int free_in_stream(uintptr_t address) override;
  int copy_to_host(void* to, uintptr_t from, int64_t bytes) override;
  int copy_from_host(uintptr_t to, const void* from, int64_t bytes) override;
  std::string describe(int error) const override;

 protected:
  Device device() const { return device_; }

 private:
  Device device_;
};

}  // namespace brim::cuda
