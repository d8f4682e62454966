#include "brim/autograd/host_copy.h"

#include <algorithm>

#include "brim/autograd/fetch.h"
#include "brim/autograd/saved_tensor.h"
#include "brim/memory/fetch_name.h"
#include "brim/memory/out_of_memory.h"

namespace brim::autograd {
namespace {
constexpr size_t kUnderWay = 2;  // each way: one is copied while the other waits or is used
}  // namespace

CopyQueues::CopyQueues(Device device, std::shared_ptr<memory::Account> host,
                       std::unique_ptr<CopyEngine> engine)
    : device_(device), host_(std::move(host)), engine_(std::move(engine)) {}

void CopyQueues::forget_done(Queue& queue) {
  std::erase_if(queue, [](const std::weak_ptr<HostCopy>& each) {
    const std::shared_ptr<HostCopy> copy = each.lock();
    return copy == nullptr || !copy->is_under_way();
  });
}

void CopyQueues::make_place(Queue& queue) {
  for (forget_done(queue); queue.size() >= kUnderWay; queue.pop_front())
    if (const auto oldest = queue.front().lock()) oldest->finish();
}

void CopyQueues::send(const std::shared_ptr<HostCopy>& copy) {
  make_place(sending_);
  sending_.push_back(copy);  // may fail, so before the copy begins
  try {
    copy->begin_sending();
  } catch (const memory::OutOfMemory&) {
    ++stats_.refused;
    return;
  }
  ++stats_.copies_out;
  stats_.bytes_out += copy->bytes_;
}

void CopyQueues::fetch(const std::shared_ptr<HostCopy>& copy) {
  make_place(fetching_);
  fetching_.push_back(copy);
  copy->begin_fetching();
  ++stats_.copies_in;
  stats_.bytes_in += copy->bytes_;
}

bool CopyQueues::may_fetch_ahead() {
  forget_done(fetching_);
  return fetching_.size() < kUnderWay;
}

void CopyQueues::finish_sending() noexcept {
  for (const std::weak_ptr<HostCopy>& each : sending_)
    if (const auto copy = each.lock(); copy != nullptr && copy->place() == HostCopy::Place::leaving)
      copy->finish();
  sending_.clear();
}

HostCopy::HostCopy(std::shared_ptr<CopyQueues> queues, const std::shared_ptr<Storage>& storage)
    : queues_(std::move(queues)),
      storage_(storage),
      bytes_(storage->bytes()),
      category_(storage->category()) {
  shape_ = storage->live()->shape;
  site_ = storage->live()->site;
}

HostCopy::~HostCopy() {
  if (is_under_way()) queues_->engine().finish(number_);
  under_way_.reset();
  queues_->host().release(block_);
}

bool HostCopy::are_values_current() const {
  return std::ranges::all_of(values_, [](const Value* value) { return value->holds_current(); });
}

bool HostCopy::is_forward_dead() const {
  const std::shared_ptr<Storage> storage = storage_.lock();
  return storage != nullptr && storage->handles() == 0 &&
         storage->tape_holds() == std::ssize(values_) && are_values_current();
}

// By who has the storage it left, but no tensor: whoever reads the value is told (`Value::get`).
bool HostCopy::is_overwritten() const {
  return std::ranges::any_of(values_, [](const Value* value) { return value->is_overwritten(); });
}

void HostCopy::begin_sending() {
  std::shared_ptr<Storage> storage = storage_.lock();
  memory::SiteScope site(site_);
  const memory::Block block = queues_->host().allocate(bytes_, category_, shape_);
  try {
    number_ =
        queues_->engine().begin(block.address(), storage->data(), bytes_, CopyDirection::to_host);
  } catch (...) {
    queues_->host().release(block);
    throw;
  }
  block_ = block;
  under_way_ = std::move(storage);
  place_ = Place::leaving;
}

void HostCopy::begin_fetching() {
  FetchScope::note(shared_from_this());
  memory::Site by = site_;
  by.op = memory::fetch_name(by.op);
  by.phase = memory::Phase::backward;
  memory::SiteScope site(by);
  auto storage = std::make_shared<Storage>(queues_->device(), bytes_, category_, shape_);
  number_ =
      queues_->engine().begin(storage->data(), block_.address(), bytes_, CopyDirection::to_device);
  for (Value* value : values_) value->return_to(storage);
  storage_ = storage;
  under_way_ = std::move(storage);
  place_ = Place::arriving;
}

void HostCopy::finish() noexcept {
  if (!is_under_way()) return;
  queues_->engine().finish(number_);
  if (place_ == Place::arriving) {
    place_ = Place::both;
    under_way_.reset();
  } else if (are_values_current()) {
    leave_device();
  } else {
    place_ = Place::device;
    under_way_.reset();
    queues_->host().release(std::exchange(block_, {}));
  }
}

void HostCopy::leave_device() noexcept {
  place_ = Place::host;
  for (Value* value : values_) value->leave_device();
  under_way_.reset();
}

void HostCopy::stay() {
  if (place_ != Place::leaving) return;
  FetchScope::note(shared_from_this());
  queues_->engine().finish(number_);
  place_ = Place::both;
  under_way_.reset();
}

void HostCopy::fetch_ahead() {
  if (place_ == Place::host && !is_overwritten() && queues_->may_fetch_ahead())
    queues_->fetch(shared_from_this());
}

void HostCopy::bring() {
  if (place_ == Place::host && !is_overwritten()) queues_->fetch(shared_from_this());
  if (place_ == Place::arriving) finish();
}

void HostCopy::put_back() noexcept {
  if (place_ == Place::arriving) finish();
  if (place_ == Place::both && are_values_current()) leave_device();
}

}  // namespace brim::autograd
