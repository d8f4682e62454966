#include "brim/autograd/offload.h"

#include "brim/autograd/cuda_copies.h"
#include "brim/autograd/host_copy.h"
#include "brim/autograd/saved_tensor.h"
#include "brim/base/error.h"
#include "brim/memory/pinned_source.h"

namespace brim::autograd {
namespace {
thread_local Offload* current = nullptr;
thread_local std::shared_ptr<memory::Account> given_host;
}  // namespace

Offload::Offload(Device device, std::shared_ptr<memory::Account> host,
                 std::unique_ptr<CopyEngine> engine)
    : queues_(std::make_shared<CopyQueues>(
          device, std::move(host), engine != nullptr ? std::move(engine) : copy_engine(device))) {}

memory::Account& Offload::host() const { return queues_->host(); }
const OffloadStats& Offload::stats() const { return queues_->stats(); }
void Offload::finish_sending() noexcept { queues_->finish_sending(); }

void Offload::watch(const std::shared_ptr<Value>& value) {
  const std::shared_ptr<Storage>& storage = value->held_storage();
  if (storage == nullptr || value->copy() != nullptr) return;
  if (storage->bytes() == 0 || storage->device() != queues_->device()) return;
  for (const std::weak_ptr<HostCopy>& each : waiting_)
    if (const auto copy = each.lock(); copy != nullptr && copy->is_of(*storage))
      return value->join(copy);
  auto copy = std::make_shared<HostCopy>(queues_, storage);
  waiting_.push_back(copy);
  value->join(std::move(copy));
}

void Offload::look() {
  std::deque<std::weak_ptr<HostCopy>> waiting;
  for (const std::weak_ptr<HostCopy>& each : waiting_) {
    const std::shared_ptr<HostCopy> copy = each.lock();
    if (copy == nullptr || copy->place() != HostCopy::Place::device) continue;
    if (copy->is_forward_dead())
      queues_->send(copy);
    else
      waiting.push_back(each);
  }
  waiting_.swap(waiting);
}

Offload* offload() { return current; }

OffloadScope::OffloadScope(Offload* engine) : before_(current) { current = engine; }
OffloadScope::~OffloadScope() { current = before_; }

std::shared_ptr<memory::Account> offload_host(Device device, int64_t bytes) {
  expect<ValueError>(bytes >= 0, "offload", "expected a host of 0 bytes or more, got {}", bytes);
  if (given_host != nullptr && given_host->device().is_meta() == device.is_meta()) {
    if (bytes > 0) given_host->set_cap(bytes);
    return given_host;
  }
  const int64_t capacity = bytes > 0 ? bytes : memory::host_memory();
  if (device.is_cuda())
    return memory::pinned_account(device, capacity, "caching",
                                  std::make_shared<CudaCopiesOrder>(device));
  if (!device.is_meta()) return memory::capped_host_account("caching", capacity);
  return std::make_shared<memory::Account>(device, std::make_unique<memory::NullSource>(capacity),
                                           memory::planner_named("caching"));
}

OffloadHostScope::OffloadHostScope(std::shared_ptr<memory::Account> host) : before_(given_host) {
  given_host = std::move(host);
}
OffloadHostScope::~OffloadHostScope() { given_host = std::move(before_); }

}  // namespace brim::autograd
