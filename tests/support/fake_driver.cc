#include "brim/tests/support/fake_driver.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace brim::testing {
namespace {

constexpr int kInvalidValue = 1;

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }
uintptr_t end_of(uintptr_t address, int64_t bytes) {
  return address + static_cast<uintptr_t>(bytes);
}

}  // namespace

FakeDriver::~FakeDriver() {
  for (auto [address, bytes] : addresses_) munmap(pointer(address), static_cast<size_t>(bytes));
  for (auto [address, bytes] : allocations_) std::free(pointer(address));
}

int FakeDriver::enter(const char* call, bool returns) {
  ++calls_;
  if (fail_in_ > 0 && --fail_in_ == 0) {
    failed_call_ = call;
    return error_;
  }
  return returns && refuses_returns_ ? kUnknown : 0;
}

int FakeDriver::refuse(const std::string& breach) {
  if (breach_.empty()) breach_ = breach;
  return kInvalidValue;
}

int FakeDriver::memory_info(int64_t* free, int64_t* total) {
  if (int error = enter("cudaMemGetInfo")) return error;
  *free = options_.total - others_ - held_;
  *total = options_.total;
  return 0;
}

int FakeDriver::granularity(int64_t* bytes) {
  if (int error = enter("cuMemGetAllocationGranularity")) return error;
  *bytes = options_.granularity;
  return options_.granularity == 0 ? kNotSupported : 0;
}

bool FakeDriver::is_whole(uintptr_t address, int64_t bytes) const {
  return bytes > 0 && bytes % options_.granularity == 0 &&
         address % static_cast<uintptr_t>(options_.granularity) == 0;
}

bool FakeDriver::is_reserved(uintptr_t address, int64_t bytes) const {
  auto after = addresses_.upper_bound(address);
  if (after == addresses_.begin()) return false;
  auto [begin, size] = *std::prev(after);
  return end_of(address, bytes) <= end_of(begin, size);
}

int FakeDriver::reserve_addresses(uintptr_t* address, int64_t bytes) {
  if (int error = enter("cuMemAddressReserve")) return error;
  if (!is_whole(0, bytes)) return refuse("reserves addresses that are not whole pages");
  // A page more, for a start on the boundary of one.
  const auto size = static_cast<size_t>(bytes), page = static_cast<size_t>(options_.granularity);
  void* whole =
      mmap(nullptr, size + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return kOutOfMemory;
  const auto start = reinterpret_cast<uintptr_t>(whole);
  *address = (start + page - 1) / page * page;
  if (*address > start) munmap(whole, *address - start);
  if (const size_t rest = start + page - *address; rest > 0) munmap(pointer(*address + size), rest);
  addresses_.emplace(*address, bytes);
  return 0;
}

int FakeDriver::free_addresses(uintptr_t address, int64_t bytes) {
  if (int error = enter("cuMemAddressFree", true)) return error;
  auto found = addresses_.find(address);
  if (found == addresses_.end() || found->second != bytes)
    return refuse("frees addresses that were not reserved at once");
  auto mapping = mappings_.lower_bound(address);
  if (mapping != mappings_.end() && mapping->first < end_of(address, bytes))
    return refuse("frees addresses where something is mapped");
  munmap(pointer(address), static_cast<size_t>(bytes));
  addresses_.erase(found);
  return 0;
}

int FakeDriver::create(uint64_t* handle, int64_t bytes) {
  if (int error = enter("cuMemCreate")) return error;
  if (!is_whole(0, bytes)) return refuse("creates memory that is not whole pages");
  if (bytes > options_.total - others_ - held_) return kOutOfMemory;
  *handle = ++handles_;
  memory_.emplace(*handle, Memory{.bytes = bytes});
  held_ += bytes;
  return 0;
}

void FakeDriver::forget(uint64_t handle) {
  const Memory& memory = memory_.at(handle);
  if (!memory.released || memory.mapped_at != 0) return;
  held_ -= memory.bytes;
  memory_.erase(handle);
}

int FakeDriver::release(uint64_t handle) {
  if (int error = enter("cuMemRelease", true)) return error;
  auto found = memory_.find(handle);
  if (found == memory_.end() || found->second.released)
    return refuse("releases memory that is not held");
  found->second.released = true;
  forget(handle);
  return 0;
}

int FakeDriver::map(uintptr_t address, int64_t bytes, uint64_t handle) {
  if (int error = enter("cuMemMap")) return error;
  auto found = memory_.find(handle);
  if (found == memory_.end() || found->second.released || found->second.mapped_at != 0)
    return refuse("maps memory that is not held, or mapped already");
  if (found->second.bytes != bytes || !is_whole(address, bytes) || !is_reserved(address, bytes))
    return refuse("maps memory where it does not belong");
  auto above = mappings_.lower_bound(address);
  const bool overlaps =
      (above != mappings_.end() && above->first < end_of(address, bytes)) ||
      (above != mappings_.begin() &&
       end_of(std::prev(above)->first, memory_.at(std::prev(above)->second).bytes) > address);
  if (overlaps) return refuse("maps memory over other");
  mappings_.emplace(address, handle);
  found->second.mapped_at = address;
  return 0;
}

int FakeDriver::allow_access(uintptr_t address, int64_t bytes) {
  if (int error = enter("cuMemSetAccess")) return error;
  for (uintptr_t at = address; at < end_of(address, bytes);) {
    auto found = mappings_.find(at);
    if (found == mappings_.end()) return refuse("allows access to what is not mapped");
    at = end_of(at, memory_.at(found->second).bytes);
  }
  mprotect(pointer(address), static_cast<size_t>(bytes), PROT_READ | PROT_WRITE);
  std::memset(pointer(address), 0xDB, static_cast<size_t>(bytes));  // nobody's values
  return 0;
}

int FakeDriver::unmap(uintptr_t address, int64_t bytes) {
  if (int error = enter("cuMemUnmap", true)) return error;
  auto found = mappings_.find(address);
  if (found == mappings_.end() || memory_.at(found->second).bytes != bytes)
    return refuse("unmaps what was not mapped at once");
  if (options_.device != nullptr && options_.device->uses(pointer(address), bytes))
    return refuse("unmaps memory that a kernel uses");
  const uint64_t handle = found->second;
  mappings_.erase(found);
  memory_.at(handle).mapped_at = 0;
  madvise(pointer(address), static_cast<size_t>(bytes), MADV_DONTNEED);
  mprotect(pointer(address), static_cast<size_t>(bytes), PROT_NONE);
  forget(handle);
  return 0;
}

int FakeDriver::allocate(uintptr_t* address, int64_t bytes) {
  if (int error = enter("cudaMalloc")) return error;
  if (bytes > options_.total - others_ - held_) return kOutOfMemory;
  constexpr int64_t kBoundary = 256;
  const int64_t whole = (bytes + kBoundary - 1) / kBoundary * kBoundary;
  *address = reinterpret_cast<uintptr_t>(
      std::aligned_alloc(static_cast<size_t>(kBoundary), static_cast<size_t>(whole)));
  if (*address == 0) return kOutOfMemory;
  std::memset(pointer(*address), 0xDB, static_cast<size_t>(bytes));
  allocations_.emplace(*address, bytes);
  held_ += bytes;
  return 0;
}

int FakeDriver::free(uintptr_t address) {
  if (int error = enter("cudaFree", true)) return error;
  auto found = allocations_.find(address);
  if (found == allocations_.end()) return refuse("frees what was not allocated");
  if (options_.device != nullptr && options_.device->uses(pointer(address), found->second))
    return refuse("frees memory that a kernel uses");
  held_ -= found->second;
  allocations_.erase(found);
  std::free(pointer(address));
  return 0;
}

int FakeDriver::copy_to_host(void* to, uintptr_t from, int64_t bytes) {
  if (int error = enter("cudaMemcpyAsync")) return error;
  std::memcpy(to, pointer(from), static_cast<size_t>(bytes));
  return 0;
}

int FakeDriver::copy_from_host(uintptr_t to, const void* from, int64_t bytes) {
  if (int error = enter("cudaMemcpyAsync")) return error;
  std::memcpy(pointer(to), from, static_cast<size_t>(bytes));
  return 0;
}

}  // namespace brim::testing
