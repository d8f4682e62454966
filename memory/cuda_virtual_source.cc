#include "brim/memory/cuda_virtual_source.h"

#include <algorithm>
#include <utility>

#include "brim/base/cuda/driver.h"
#include "brim/memory/cuda_source.h"

namespace brim::memory {
namespace {

// Of the capacity: pieces come and go without a search for addresses.
constexpr int64_t kAddresses = 4;

Pages pages_of(cuda::Driver& driver) {
  int64_t bytes = 0;
  check_driver(driver, driver.granularity(&bytes), "cuMemGetAllocationGranularity");
  return {.bytes = bytes, .apart = true};
}

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }
uintptr_t address_of(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }
uintptr_t size(int64_t bytes) { return static_cast<uintptr_t>(bytes); }

}  // namespace

CudaVirtualSource::CudaVirtualSource(std::shared_ptr<cuda::Driver> driver)
    : Source(0, pages_of(*driver)), driver_(std::move(driver)) {
  set_capacity(free_bytes(*driver_, pages().bytes));
  if (capacity() > 0)
    check_driver(*driver_, add_addresses(kAddresses * capacity()), "cuMemAddressReserve");
}

CudaVirtualSource::~CudaVirtualSource() {
  recover();
  // From one start of addresses to the next.
  for (auto at = stretches_.begin(); at != stretches_.end();) {
    const uintptr_t begin = at->first;
    int64_t bytes = at->second.bytes;
    while (++at != stretches_.end() && !at->second.begins_addresses) bytes += at->second.bytes;
    driver_->free_addresses(begin, bytes);
  }
}

int CudaVirtualSource::add_addresses(int64_t bytes) {
  uintptr_t begin = 0;
  if (int error = driver_->reserve_addresses(&begin, bytes)) return error;
  try {
    stretches_.emplace(begin, Stretch{.bytes = bytes, .begins_addresses = true});
  } catch (...) {
    driver_->free_addresses(begin, bytes);
    throw;
  }
  return 0;
}

// ---- Taking

/// The first stretch with room.
CudaVirtualSource::Stretches::iterator CudaVirtualSource::find_free(int64_t bytes) {
  return std::ranges::find_if(stretches_, [&](const auto& stretch) {
    return stretch.second.state == State::free && stretch.second.bytes >= bytes;
  });
}

/// Makes of the first `bytes` of a free stretch as many as there are pieces.
void CudaVirtualSource::cut(Stretches::iterator place, int64_t bytes, int64_t piece) {
  const auto [begin, whole] = *place;
  for (int64_t at = piece; at <= bytes; at += piece) {  // what is left last is the rest
    if (at == whole.bytes) return;
    Stretch rest{.bytes = whole.bytes - at};
    place = stretches_.emplace_hint(std::next(place), begin + size(at), rest);
    std::prev(place)->second.bytes = piece;
  }
}

void* CudaVirtualSource::take_in_pieces(int64_t bytes, int64_t piece) {
  auto place = find_free(bytes);
  if (place == stretches_.end()) {
    check_driver(*driver_, add_addresses(std::max(bytes, capacity())), "cuMemAddressReserve");
    place = find_free(bytes);
  }
  const uintptr_t begin = place->first, end = begin + size(bytes);
  unreleased_.reserve(unreleased_.size() + static_cast<size_t>(mapped_ + bytes / piece));
  cut(place, bytes, piece);
  int error = 0;
  const char* call = "cuMemSetAccess";
  auto at = place;
  while (error == 0 && at != stretches_.end() && at->first < end) error = map(at++, call);
  if (error == 0) error = driver_->allow_access(begin, bytes);
  if (error == 0) return pointer(begin);
  give_back(pointer(begin), bytes);
  if (error == cuda::Driver::kOutOfMemory) {
    set_capacity(capacity_left(*this, *driver_));
    return nullptr;
  }
  check_driver(*driver_, error, call);
  return nullptr;
}

/// Nothing, or the error and the call.
int CudaVirtualSource::map(Stretches::iterator place, const char*& call) {
  auto& [address, stretch] = *place;
  uint64_t handle = 0;
  if (int error = driver_->create(&handle, stretch.bytes)) {
    call = "cuMemCreate";
    return error;
  }
  if (int error = driver_->map(address, stretch.bytes, handle)) {
    call = "cuMemMap";
    release({handle, stretch.bytes});
    return error;
  }
  stretch.state = State::mapped;
  stretch.memory = handle;
  ++mapped_;
  return 0;
}

// ---- Giving back

void CudaVirtualSource::give_back(void* memory, int64_t bytes) noexcept {
  const uintptr_t begin = address_of(memory), end = begin + size(bytes);
  for (auto at = stretches_.find(begin); at != stretches_.end() && at->first < end; ++at)
    if (at->second.state == State::mapped) unmap(at);
  join_free(begin, end);
}

/// Of a stretch that is mapped or stuck, which is stuck or free then.
void CudaVirtualSource::unmap(Stretches::iterator place) noexcept {
  auto& [address, stretch] = *place;
  const bool was_stuck = stretch.state == State::stuck;
  if (driver_->unmap(address, stretch.bytes) != 0) {
    if (!was_stuck) strand(stretch.bytes);
    stretch.state = State::stuck;
    return;
  }
  if (was_stuck) strand(-stretch.bytes);
  stretch.state = State::free;
  --mapped_;
  release({stretch.memory, stretch.bytes});
}

void CudaVirtualSource::release(const Memory& memory) noexcept {
  if (driver_->release(memory.handle) == 0) return;
  unreleased_.push_back(memory);
  strand(memory.bytes);
}

void CudaVirtualSource::recover() noexcept {
  std::erase_if(unreleased_, [&](const Memory& memory) {
    if (driver_->release(memory.handle) != 0) return false;
    strand(-memory.bytes);
    return true;
  });
  for (auto at = stretches_.begin(); at != stretches_.end(); ++at)
    if (at->second.state == State::stuck) unmap(at);
  if (!stretches_.empty()) join_free(stretches_.begin()->first, stretches_.rbegin()->first);
}

/// Makes one of the free stretches from `begin` to `end` that lie side by side, and of those with
/// their neighbours.
void CudaVirtualSource::join_free(uintptr_t begin, uintptr_t end) noexcept {
  auto at = stretches_.find(begin);
  if (at == stretches_.end()) return;
  if (at != stretches_.begin()) --at;
  for (auto next = std::next(at); next != stretches_.end() && at->first <= end;) {
    if (at->second.state == State::free && next->second.state == State::free &&
        !next->second.begins_addresses) {
      at->second.bytes += next->second.bytes;
      next = stretches_.erase(next);
    } else {
      at = next++;
    }
  }
}

void CudaVirtualSource::copy_to_host(void* to, const void* from, int64_t bytes) {
  check_driver(*driver_, driver_->copy_to_host(to, address_of(from), bytes), "cudaMemcpyAsync");
}

void CudaVirtualSource::copy_from_host(void* to, const void* from, int64_t bytes) {
  check_driver(*driver_, driver_->copy_from_host(address_of(to), from, bytes), "cudaMemcpyAsync");
}

}  // namespace brim::memory
