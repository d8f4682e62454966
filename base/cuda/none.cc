// The build without the CUDA toolkit: there is no device, and what needs one cannot be reached.
#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/driver.h"
#include "brim/base/cuda/event.h"
#include "brim/base/cuda/graph.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/cuda/ranges.h"
#include "brim/base/cuda/stream.h"
#include "brim/base/error.h"

namespace brim::cuda {

bool built() { return false; }

int device_count() { return 0; }

std::string why_no_device() { return "brim was built without the CUDA toolkit"; }

void require_device(const char* tag, Device device) {
  raise<DeviceError>(tag, "no device {}: {}", device, why_no_device());
}

DeviceScope::DeviceScope(Device device) {
  if (device.is_cuda()) require_device("cuda", device);
}

DeviceScope::~DeviceScope() = default;

MemoryInfo memory_info(Device device) {
  require_device("cuda", device);
  return {};
}

const Context& open_context(Device device, const std::function<void()>&) {
  require_device("cuda", device);
  raise<InternalError>("cuda", "a device in a build without CUDA");
}

std::optional<int64_t> context_growth(Device, int64_t) { return {}; }

std::string kernels_to_compile(Device) { return ""; }

bool names_are_seen() { return false; }

NamedRange::NamedRange(const char*) {}

NamedRange::~NamedRange() = default;

std::shared_ptr<Driver> driver_of(Device device) {
  require_device("cuda", device);
  return nullptr;
}

void copy_to_device(Device device, void*, const void*, int64_t) { require_device("cuda", device); }

void copy_to_host(Device device, void*, const void*, int64_t) { require_device("cuda", device); }

void enqueue_copy(const Stream& stream, void*, const void*, int64_t, CopyKind) {
  require_device("cuda", stream.device());
}

void* allocate_pinned(Device, int64_t) {
  require_device("cuda", Device::cuda());
  return nullptr;
}

void free_pinned(Device, void*) noexcept {}

Stream::Stream(Device device) : device_(device) { require_device("cuda", device); }

void Stream::Destroy::operator()(CUstream_st*) const noexcept {}

void Stream::synchronize() const {}

void Stream::wait(const Event&) const {}

const Stream& numbered_stream(Device device, int) {
  require_device("cuda", device);
  raise<InternalError>("cuda", "a device in a build without CUDA");
}

const Stream& default_stream(Device device) { return numbered_stream(device, 0); }

Event::Event(Device device, const EventOptions&) { require_device("cuda", device); }

void Event::Destroy::operator()(CUevent_st*) const noexcept {}

void Event::record(const Stream&) {}

void Event::synchronize() const {}

double seconds_between(const Event&, const Event&) { return 0; }

void Graph::Destroy::operator()(CUgraphExec_st*) const noexcept {}

void Graph::start() const {}

Recording::Recording(Device device, Pinned) { require_device("cuda", device); }

Recording::~Recording() = default;

Graph Recording::finish() { return {}; }

void Recording::upload(void*, const void*, int64_t) {}

Recording* Recording::current() { return nullptr; }

}  // namespace brim::cuda
