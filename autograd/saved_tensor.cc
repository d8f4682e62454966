#include "brim/autograd/saved_tensor.h"

#include <utility>

#include "brim/autograd/host_copy.h"
#include "brim/autograd/node.h"
#include "brim/autograd/rebuild.h"

namespace brim::autograd {

Value::Value(const Tensor& tensor)
    : layout_(tensor.layout()), storage_(tensor.storage()), version_(tensor.storage()->version()) {}

Value::Value(const Tensor& tensor, std::weak_ptr<Node> producer, int output, Fate fate,
             const Segment& segment)
    : Value(tensor) {
  producer_ = std::move(producer);
  output_ = output;
  fate_ = fate;
  segment_ = segment;
}

bool Value::is_of(const Tensor& tensor) const {
  return storage_.lock() == tensor.storage() && tensor.storage()->version() == version_;
}

bool Value::is_overwritten() const {
  std::shared_ptr<Storage> storage = storage_.lock();
  return storage != nullptr && storage->version() != version_;
}

std::shared_ptr<Storage> Value::resident_storage() const {
  std::shared_ptr<Storage> storage = storage_.lock();
  return storage && storage->version() == version_ ? storage : nullptr;
}

void Value::raise_overwritten(const char* op, const Storage& storage) const {
  raise<AutogradError>(op,
                       "a saved tensor of shape {} was overwritten by '{}' after the forward pass",
                       layout_.shape, storage.last_writer());
}

Tensor Value::get(const char* op) {
  if (copy_ != nullptr) {
    // Also where the host has what it was: without offloading it would be refused.
    if (is_overwritten()) raise_overwritten(op, *storage_.lock());
    copy_->bring();
  }
  if (auto storage = resident_storage()) return Tensor(std::move(storage), layout_);
  if (is_held()) raise_overwritten(op, *hold_.storage());
  return rebuild(*this, op);
}

void Value::count_reader(const Reading& reading, int by) {
  const bool may_lose = is_held_until_dropped_;
  readers_ += by;
  users_ += reading.in_backward || (reading.holds && may_lose) ? by : 0;
  holders_ += reading.holds && !may_lose ? by : 0;
}

void Value::add_reader(const Reading& reading) {
  count_reader(reading, 1);
  const bool holds = reading.holds || (reading.in_backward && is_held_until_dropped_);
  if (holds && !is_held()) hold_ = TapeHold(resident_storage());
}

void Value::remove_reader(const Reading& reading) {
  count_reader(reading, -1);
  if (holders_ > 0 || (users_ > 0 && fate_ != Fate::remake)) return;
  hold_ = TapeHold();
  leave_copy();
}

void Value::join(std::shared_ptr<HostCopy> copy) {
  copy->add(*this);
  copy_ = std::move(copy);
}

void Value::leave_copy() {
  if (copy_ == nullptr) return;
  copy_->remove(*this);
  copy_.reset();
}

void Value::return_to(const std::shared_ptr<Storage>& storage) {
  storage_ = storage;
  version_ = storage->version();
  hold_ = TapeHold(storage);
}

bool Value::can_be_made_again() const {
  const std::shared_ptr<Node> node = producer_.lock();
  return node != nullptr && node->replay_inputs.size() == node->inputs.size();
}

void Value::drop() {
  if (holders_ == 0) hold_ = TapeHold();
}

void Value::renew(const Tensor& tensor) {
  layout_ = tensor.layout();
  storage_ = tensor.storage();
  version_ = tensor.storage()->version();
}

void Value::set(const Tensor& tensor, bool is_next, int depth) {
  renew(tensor);
  const bool stays = fate_ != Fate::remake && segment_.depth <= depth;
  if (users_ > 0 && (is_next || stays)) hold_ = TapeHold(tensor.storage());
}

void Value::leave_segment(const Segment& outer) {
  segment_ = outer;
  if (outer.id == 0) fate_ = Fate::keep;
}

int64_t Value::bytes() const { return numel(layout_.shape) * size_of(layout_.dtype); }

SavedTensor::SavedTensor(std::shared_ptr<Value> value, const Reading& reading)
    : value_(std::move(value)), reading_(reading) {
  if (value_) value_->add_reader(reading_);
}

SavedTensor::SavedTensor(SavedTensor&& other) noexcept
    : value_(std::move(other.value_)), reading_(other.reading_) {}

SavedTensor& SavedTensor::operator=(SavedTensor&& other) noexcept {
  std::swap(value_, other.value_);
  std::swap(reading_, other.reading_);
  return *this;
}

SavedTensor::~SavedTensor() {
  if (value_) value_->remove_reader(reading_);
}

}  // namespace brim::autograd
