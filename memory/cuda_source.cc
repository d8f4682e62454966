#include "brim/memory/cuda_source.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/driver.h"
#include "brim/base/error.h"
#include "brim/memory/cuda_stream_order.h"
#include "brim/memory/cuda_virtual_source.h"

namespace brim::memory {

void check_driver(const cuda::Driver& driver, int error, const char* call) {
  if (error != 0) raise<DeviceError>("cuda", "{} failed: {}", call, driver.describe(error));
}

int64_t free_bytes(cuda::Driver& driver, int64_t page) {
  int64_t free = 0, total = 0;
  check_driver(driver, driver.memory_info(&free, &total), "cudaMemGetInfo");
  return free / page * page;
}

int64_t capacity_left(const Source& source, cuda::Driver& driver) noexcept {
  int64_t free = 0, total = 0;
  if (driver.memory_info(&free, &total) != 0) return source.capacity();
  const int64_t page = source.pages().bytes;
  return std::min(source.capacity(), source.used() + source.stranded() + free / page * page);
}

CudaSource::CudaSource(std::shared_ptr<cuda::Driver> driver, const CudaSourceOptions& options)
    : Source(free_bytes(*driver, kAlignment)), driver_(std::move(driver)), options_(options) {}

CudaSource::~CudaSource() { recover(); }

void* CudaSource::take(int64_t bytes) {
  stranded_.reserve(static_cast<size_t>(out_) + 1 + stranded_.size());
  uintptr_t address = 0;
  const int error = options_.in_stream ? driver_->allocate_in_stream(&address, bytes)
                                       : driver_->allocate(&address, bytes);
  if (error == cuda::Driver::kOutOfMemory) {
    set_capacity(capacity_left(*this, *driver_));
    return nullptr;
  }
  check_driver(*driver_, error, options_.in_stream ? "cudaMallocAsync" : "cudaMalloc");
  ++out_;
  return reinterpret_cast<void*>(address);
}

int CudaSource::free(uintptr_t address) noexcept {
  return options_.in_stream ? driver_->free_in_stream(address) : driver_->free(address);
}

void CudaSource::give_back(void* memory, int64_t bytes) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  --out_;
  if (free(address) == 0) return;
  stranded_.push_back({address, bytes});
  strand(bytes);
}

void CudaSource::recover() noexcept {
  std::erase_if(stranded_, [&](const Piece& piece) {
    if (free(piece.address) != 0) return false;
    strand(-piece.bytes);
    return true;
  });
}

void CudaSource::copy_to_host(void* to, const void* from, int64_t bytes) {
  check_driver(*driver_, driver_->copy_to_host(to, reinterpret_cast<uintptr_t>(from), bytes),
               "cudaMemcpyAsync");
}

void CudaSource::copy_from_host(void* to, const void* from, int64_t bytes) {
  check_driver(*driver_, driver_->copy_from_host(reinterpret_cast<uintptr_t>(to), from, bytes),
               "cudaMemcpyAsync");
}

bool asks_for_each() {
  const char* asked = std::getenv("BRIM_CUDA_MALLOC");
  return asked != nullptr && std::string_view(asked) == "1";
}

std::unique_ptr<Source> cuda_source(Device device) {
  cuda::require_device("memory", device);
  cuda::open_context(device);  // first, so that what is free after it is for tensors
  std::shared_ptr<cuda::Driver> driver = cuda::driver_of(device);
  std::unique_ptr<Source> source;
  int64_t page = 0;
  const int error = driver->granularity(&page);
  if (error == cuda::Driver::kNotSupported || asks_for_each()) {
    source = std::make_unique<CudaSource>(std::move(driver));
  } else {
    check_driver(*driver, error, "cuMemGetAllocationGranularity");
    source = std::make_unique<CudaVirtualSource>(std::move(driver));
  }
  source->set_stream_order(std::make_shared<CudaStreamOrder>(device));
  return source;
}

}  // namespace brim::memory
