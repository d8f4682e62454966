// Virtual memory by libcuda, which comes with the driver and is looked for when it is first needed.
#include "brim/base/cuda/driver.h"

#include <cuda.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/library.h"
#include "brim/base/cuda/runtime_driver.h"

namespace brim::cuda {
namespace {

struct VirtualMemory {
  decltype(cuDeviceGetAttribute)* get_attribute;
  decltype(cuMemGetAllocationGranularity)* granularity;
  decltype(cuMemAddressReserve)* reserve_addresses;
  decltype(cuMemAddressFree)* free_addresses;
  decltype(cuMemCreate)* create;
  decltype(cuMemRelease)* release;
  decltype(cuMemMap)* map;
  decltype(cuMemUnmap)* unmap;
  decltype(cuMemSetAccess)* set_access;
};

VirtualMemory load() {
  Library library("libcuda.so.1");
  VirtualMemory table{};
  library.bind(table.get_attribute, "cuDeviceGetAttribute");
  library.bind(table.granularity, "cuMemGetAllocationGranularity");
  library.bind(table.reserve_addresses, "cuMemAddressReserve");
  library.bind(table.free_addresses, "cuMemAddressFree");
  library.bind(table.create, "cuMemCreate");
  library.bind(table.release, "cuMemRelease");
  library.bind(table.map, "cuMemMap");
  library.bind(table.unmap, "cuMemUnmap");
  library.bind(table.set_access, "cuMemSetAccess");
  return table;
}

const VirtualMemory& virtual_memory() {
  static const VirtualMemory table = load();
  return table;
}

size_t size(int64_t bytes) { return static_cast<size_t>(bytes); }

class CudaDriver final : public RuntimeDriver {
 public:
  explicit CudaDriver(Device device) : RuntimeDriver(device) {
    place_.type = CU_MEM_LOCATION_TYPE_DEVICE;
    place_.id = device.index;
    memory_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory_.location = place_;
  }

  int granularity(int64_t* bytes) override {
    int has_it = 0;
    if (int error = virtual_memory().get_attribute(
            &has_it, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device().index))
      return error;
    if (has_it == 0) return kNotSupported;
    DeviceScope scope(device());
    size_t least = 0;
    if (int error =
            virtual_memory().granularity(&least, &memory_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
      return error;
    *bytes = static_cast<int64_t>(least);
    return 0;
  }
  int reserve_addresses(uintptr_t* address, int64_t bytes) override {
    CUdeviceptr begin = 0;
    int error = virtual_memory().reserve_addresses(&begin, size(bytes), 0, 0, 0);
    *address = begin;
    return error;
  }
  int free_addresses(uintptr_t address, int64_t bytes) override {
    return virtual_memory().free_addresses(address, size(bytes));
  }
  int create(uint64_t* handle, int64_t bytes) override {
    DeviceScope scope(device());
    CUmemGenericAllocationHandle made = 0;
    int error = virtual_memory().create(&made, size(bytes), &memory_, 0);
    *handle = made;
    return error;
  }
  int release(uint64_t handle) override { return virtual_memory().release(handle); }
  int map(uintptr_t address, int64_t bytes, uint64_t handle) override {
    return virtual_memory().map(address, size(bytes), 0, handle, 0);
  }
  int allow_access(uintptr_t address, int64_t bytes) override {
    CUmemAccessDesc access{};
    access.location = place_;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return virtual_memory().set_access(address, size(bytes), &access, 1);
  }
  int unmap(uintptr_t address, int64_t bytes) override {
    return virtual_memory().unmap(address, size(bytes));
  }

 private:
  CUmemLocation place_{};
  CUmemAllocationProp memory_{};
};

}  // namespace

std::shared_ptr<Driver> driver_of(Device device) {
  require_device("cuda", device);
  DeviceScope scope(device);
  return std::make_shared<CudaDriver>(device);
}

}  // namespace brim::cuda
