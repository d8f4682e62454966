#include "brim/core/tensor.h"

#include <utility>

#include "brim/core/call_list.h"
#include "brim/core/strided_loop.h"

namespace brim {

TensorBody::TensorBody(std::shared_ptr<Storage> from, const Layout& with)
    : layout(with), storage(std::move(from)) {
  ++storage->handles_;
}

TensorBody::~TensorBody() { --storage->handles_; }

namespace {

// Whether the first and the last element in memory lie in `bytes`.
bool fits(const Layout& layout, int64_t bytes) {
  if (layout.shape.size() != layout.strides.size()) return false;
  if (numel(layout.shape) == 0) return true;
  int64_t first = layout.offset, last = layout.offset;
  for (int i = 0; i < layout.shape.size(); ++i) {
    int64_t span = 0;
    if (__builtin_mul_overflow(layout.shape[i] - 1, layout.strides[i], &span)) return false;
    int64_t& end = span < 0 ? first : last;
    if (__builtin_add_overflow(end, span, &end)) return false;
  }
  return first >= 0 && last < bytes / size_of(layout.dtype);
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, const Layout& layout) {
  if (!fits(layout, storage->bytes()))
    raise<ShapeError>("tensor", "shape {}, strides {} and offset {} of {} reach beyond {} bytes",
                      layout.shape, layout.strides, layout.offset, layout.dtype, storage->bytes());
  body_ = std::make_shared<TensorBody>(std::move(storage), layout);
}

const Layout& Tensor::layout() const {
  expect<ValueError>(defined(), "tensor", "an undefined tensor was used");
  return body_->layout;
}

const std::shared_ptr<Storage>& Tensor::storage() const {
  expect<ValueError>(defined(), "tensor", "an undefined tensor was used");
  return body_->storage;
}

int64_t Tensor::size(int axis) const { return shape()[normalize_axis(axis, dim(), "size")]; }
int64_t Tensor::numel() const { return brim::numel(shape()); }
Device Tensor::device() const { return storage()->device(); }

bool Tensor::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (int i = dim() - 1; i >= 0; --i) {
    if (shape()[i] != 1 && strides()[i] != expected) return false;
    expected *= shape()[i];
  }
  return true;
}

bool is_unshared(const Tensor& tensor) {
  return tensor.shared_body().use_count() == 1 && tensor.storage()->handles() == 1 &&
         tensor.storage()->tape_holds() == 0;
}

bool fills_storage(const Tensor& tensor) {
  int64_t bytes = tensor.numel() * size_of(tensor.dtype());
  return tensor.is_contiguous() && tensor.layout().offset == 0 &&
         tensor.storage()->bytes() < bytes + memory::kAlignment;
}

void* Tensor::data() const {
  if (storage()->data() == nullptr) return nullptr;
  return static_cast<char*>(storage()->data()) + layout().offset * size_of(dtype());
}

void Tensor::require_host(Dtype wanted) const {
  expect<DtypeError>(dtype() == wanted, "data", "expected a {} tensor, got {}", wanted, dtype());
  expect<DeviceError>(device().is_cpu(), "data", "values of a tensor on {} cannot be read here",
                      device());
  require_not_recording("data");
}

void Tensor::require_scalar() const {
  expect<ShapeError>(numel() == 1, "item", "expected one element, got shape {}", shape());
}

namespace {

// A program asks for values that are not there: most often to decide what to compute next.
[[noreturn]] void refuse_values(const Tensor& tensor) {
  const memory::LiveBuffer* buffer = tensor.storage()->live();
  std::string made = "made outside of ops";
  if (buffer != nullptr && *buffer->site.op != '\0') {
    const memory::Site& site = buffer->site;
    std::string_view file = site.file;
    made = fmt::format("the result of '{}'{} ({}:{})", site.op,
                       site.path().empty() ? "" : fmt::format(" in module '{}'", site.path()),
                       file.substr(file.rfind('/') + 1), site.line);
  }
  raise<DeviceError>(
      "to_vector",
      "the values of a tensor {} {} were asked for while tracing on the meta device; "
      "it is {}: control flow that depends on data cannot be planned",
      tensor.dtype(), tensor.shape(), made);
}

}  // namespace

template <class T>
std::vector<T> Tensor::to_vector() const {
  if (device().is_meta()) refuse_values(*this);
  if (device().is_cpu()) require_not_recording("to_vector");
  std::vector<T> values(static_cast<size_t>(numel()));
  Tensor row_major = contiguous(convert_to(*this, {.dtype = dtype(), .device = Device::cpu()}));
  visit_dtype(dtype(), [&]<class From>() {
    const From* from = row_major.data<From>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = convert<T>(from[i]);
  });
  return values;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<Float16> Tensor::to_vector() const;
template std::vector<BFloat16> Tensor::to_vector() const;
template std::vector<int8_t> Tensor::to_vector() const;
template std::vector<uint8_t> Tensor::to_vector() const;
template std::vector<int32_t> Tensor::to_vector() const;
template std::vector<int64_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

Tensor Tensor::detach() const { return Tensor(storage(), layout()); }

Tensor Tensor::view_as(Shape shape) const {
  int64_t known = 1;
  int inferred = -1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) {
      expect<ShapeError>(!__builtin_mul_overflow(known, shape[i], &known), "reshape",
                         "{} has too many elements", shape);
      continue;
    }
    expect<ShapeError>(inferred < 0, "reshape", "more than one -1 in {}", shape);
    inferred = i;
  }
  if (inferred >= 0) shape[inferred] = known == 0 ? 0 : numel() / known;
  expect<ShapeError>(brim::numel(shape) == numel(), "reshape", "cannot make {} of {}", shape,
                     this->shape());
  expect<ShapeError>(is_contiguous(), "view_as", "expected a contiguous tensor, got strides {}",
                     strides());
  Layout layout = this->layout();
  layout.shape = shape;
  layout.strides = contiguous_strides(shape);
  return Tensor(storage(), layout);
}

bool Tensor::requires_grad() const {
  return defined() && (body_->requires_grad || body_->producer != nullptr);
}

Tensor& Tensor::set_requires_grad(bool requires_grad) {
  expect<AutogradError>(is_leaf(), "requires_grad",
                        "only leaves can ask for a gradient; this tensor of shape {} was computed",
                        shape());
  expect<DtypeError>(!requires_grad || is_floating(dtype()), "requires_grad",
                     "only floating tensors have gradients, got {}", dtype());
  body_->requires_grad = requires_grad;
  return *this;
}

const Tensor& Tensor::grad() const {
  expect<ValueError>(defined(), "tensor", "an undefined tensor was used");
  return body_->grad;
}

void Tensor::set_grad(Tensor grad) const {
  expect<ValueError>(defined(), "tensor", "an undefined tensor was used");
  body_->grad = std::move(grad);
}

bool Tensor::is_leaf() const {
  expect<ValueError>(defined(), "tensor", "an undefined tensor was used");
  return body_->producer == nullptr;
}

}  // namespace brim
