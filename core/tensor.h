// The tensor: a handle to a descriptor (shape, strides, dtype) over a `Storage`. Copying a
// Tensor copies the handle; views share storage. Images are NHWC, convolution weights KRSC
// (output, height, width, input), on every device.
//
// Here is what a tensor is; what computes is a function (`relu(x)`, ops/) or an operator (`a - b`),
// with PyTorch's name and order of arguments, and gradients are autograd/'s. Four ops that often
// end an expression can be written behind it too: `(x - y).mean()`.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "brim/base/device.h"
#include "brim/base/random.h"
#include "brim/core/axes.h"
#include "brim/core/dtype.h"
#include "brim/core/shape.h"
#include "brim/core/storage.h"

namespace brim {

class Tensor;

struct TensorOptions {
  Dtype dtype = Dtype::float32;
  Device device = Device::cpu();
};

/// Shape, strides and place of a view over a storage.
struct Layout {
  Shape shape;
  Strides strides;
  int64_t offset = 0;  ///< of the first element, in elements
  Dtype dtype = Dtype::float32;
};

struct TensorBody;

class Tensor {
 public:
  /// No tensor; `defined()` is false.
  Tensor() = default;
  /// A tensor over existing storage. Throws `ShapeError` for a layout that reaches beyond it.
  Tensor(std::shared_ptr<Storage> storage, const Layout& layout);

  bool defined() const { return body_ != nullptr; }

  const Shape& shape() const { return layout().shape; }
  const Strides& strides() const { return layout().strides; }
  /// Elements along `axis`, which counts from the end when negative.
  int64_t size(int axis) const;
  int dim() const { return shape().size(); }
  int64_t numel() const;
  Dtype dtype() const { return layout().dtype; }
  Device device() const;
  const Layout& layout() const;
  const std::shared_ptr<Storage>& storage() const;
  /// Row-major without gaps.
  bool is_contiguous() const;

  /// The first element. Null where the storage is empty; never to be read on the meta device.
  void* data() const;
  /// Throws `DtypeError` when T is not the tensor's element type, `DeviceError` off the CPU.
  template <class T>
  T* data() const {
    require_host(dtype_of<T>);
    return static_cast<T*>(data());
  }
  /// The only element, converted. Throws `ShapeError` unless there is exactly one.
  template <class T>
  T item() const {
    require_scalar();
    return to_vector<T>().front();
  }
  /// All elements in row-major order, converted. Throws `DeviceError` on the meta device, naming
  /// the op that made the tensor.
  template <class T>
  std::vector<T> to_vector() const;

  /// `sum(x, axes, options)` and so on, of ops/.
  Tensor sum(const Axes& axes = {}, ReduceOptions options = {},
             std::source_location where = std::source_location::current()) const;
  Tensor mean(const Axes& axes = {}, ReduceOptions options = {},
              std::source_location where = std::source_location::current()) const;
  Tensor argmax(const Axes& axes = {}, ReduceOptions options = {},
                std::source_location where = std::source_location::current()) const;
  Tensor reshape(const Shape& shape,
                 std::source_location where = std::source_location::current()) const;

  /// `if (x > 0)` asks many elements at once.
  template <class T = void>
  explicit operator bool() const {
    static_assert(!std::is_void_v<T>,
                  "a Tensor is neither true nor false: ask item<bool>() of one");
    return false;
  }

  /// A tensor of one's own over the same storage, unknown to the tape.
  Tensor detach() const;
  /// The same elements with another shape; -1 for one size to infer. Not recorded: for gradients
  /// use `reshape`. Throws `ShapeError` for another number of elements, or when not contiguous.
  Tensor view_as(Shape shape) const;

  // What autograd keeps at a tensor. See autograd/ for how it is used.
  /// True for leaves that asked for a gradient and for results computed from them.
  bool requires_grad() const;
  /// Asks for a gradient. Throws `AutogradError` unless a leaf, `DtypeError` unless floating.
  Tensor& set_requires_grad(bool requires_grad = true);
  /// The accumulated gradient of a leaf; undefined before the first backward.
  const Tensor& grad() const;
  void set_grad(Tensor grad) const;
  bool is_leaf() const;

  /// The same handle, not just equal values.
  bool is_same(const Tensor& other) const { return body_ == other.body_; }
  TensorBody* body() const { return body_.get(); }
  const std::shared_ptr<TensorBody>& shared_body() const { return body_; }
  explicit Tensor(std::shared_ptr<TensorBody> body) : body_(std::move(body)) {}

 private:
  void require_host(Dtype wanted) const;
  void require_scalar() const;

  std::shared_ptr<TensorBody> body_;
};

/// What handles point to. Autograd's part is opaque here: a producer and its output's number.
struct TensorBody {
  TensorBody(std::shared_ptr<Storage> storage, const Layout& layout);
  ~TensorBody();
  TensorBody(const TensorBody&) = delete;
  TensorBody& operator=(const TensorBody&) = delete;

  Layout layout;
  std::shared_ptr<Storage> storage;
  bool requires_grad = false;      // a leaf that wants a gradient
  Tensor grad;                     // of a leaf
  std::shared_ptr<void> producer;  // an autograd::Node, or null for a leaf
  int output = 0;                  // which output of the producer
  std::shared_ptr<void> hooks;     // of a leaf: autograd::Hooks
};

/// Uninitialised, contiguous. Throws `memory::OutOfMemory`.
Tensor empty(const Shape& shape, const TensorOptions& options = {});
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
Tensor ones(const Shape& shape, const TensorOptions& options = {});
Tensor full(const Shape& shape, double value, const TensorOptions& options = {});
/// Uninitialised with the shape, dtype and device of `like`.
Tensor empty_like(const Tensor& like);
Tensor zeros_like(const Tensor& like);
/// 0, 1, ..., count - 1.
Tensor arange(int64_t count, const TensorOptions& options = {.dtype = Dtype::int64});
/// Uniform in [low, high), of 2^24 numbers, rounded to the dtype; element i is a pure function of
/// (key, i).
Tensor uniform(const Shape& shape, float low, float high, RandomKey key,
               const TensorOptions& options = {});
/// Normal with mean 0 and the given deviation; element i is a pure function of (key, i).
Tensor normal(const Shape& shape, float deviation, RandomKey key,
              const TensorOptions& options = {});
/// Copies `values` into a new tensor. Throws `ShapeError` when the count does not match.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device = Device::cpu());

/// Copies the elements of `from`, converting, into `to` (any strides). Throws `ShapeError` for
/// another shape, `DeviceError` for another device.
void copy_into(const Tensor& to, const Tensor& from);
/// Adds the elements of `term` to those of `sum`. Throws `ShapeError`, `DtypeError` or
/// `DeviceError` unless both have one shape, floating dtype and device.
void accumulate_into(const Tensor& sum, const Tensor& term);
/// Sets every element.
void fill(const Tensor& tensor, double value);
/// As `uniform` and `normal`, into a tensor: there may be no room for another. Throw `ShapeError`
/// unless it is contiguous.
void fill_uniform(const Tensor& tensor, double low, double high, RandomKey key);
void fill_normal(const Tensor& tensor, double deviation, RandomKey key);
/// The tensor itself when contiguous, else a copy. Not recorded.
Tensor contiguous(const Tensor& tensor);
/// A copy with another dtype or on another device; the tensor itself when nothing changes.
/// Not recorded: for gradients use `cast`. Between devices the elements are converted where they
/// are, then copied; from one GPU to another by way of the host. The copy is done when it returns.
/// Throws `DeviceError` for a copy that cannot be made: from the meta device there is none.
Tensor convert_to(const Tensor& tensor, const TensorOptions& options);
Tensor clone(const Tensor& tensor);

/// Nobody else can see this tensor's values: no other handle, view or saved tensor.
bool is_unshared(const Tensor& tensor);
/// The tensor is contiguous and all that its storage has room for.
bool fills_storage(const Tensor& tensor);

/// Dtype, shape, device and elements (the outer ones when there are many), for people.
std::string to_string(const Tensor& tensor);

}  // namespace brim
