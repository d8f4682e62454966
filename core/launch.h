// The one way to run a kernel. Kernels are plain functions on views; a table keyed by (kernel,
// device, dtype) holds them; `launch` finds the right one, provides its scratch from the account
// and notes the write. Tracing, profiling and replay hang here, and ops contain none of it.
// On the meta device nothing runs: the scratch that the kernel of the device that it stands for
// (base/stand_in.h) would take is asked for and returned, so that the account sees the same bytes.
//
// float16 and bfloat16 use their own kernel where the table has one that suits the shapes.
// Otherwise the low-precision buffers are widened to float32 in scratch, the float32 kernel runs,
// and results are rounded (core/widened.h); some rows at a time where the kernel says that it works
// by rows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "brim/core/kernel.h"
#include "brim/core/tensor.h"

namespace brim {

/// A plain view of a buffer.
struct View {
  bool present = false;  ///< false for an optional buffer that was not given
  void* data = nullptr;
  Dtype dtype = Dtype::float32;
  Shape shape;
  Strides strides;  ///< in elements

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t numel() const { return brim::numel(shape); }
};

/// What a kernel gets.
struct KernelCall {
  std::span<const View> in, out;
  void* scratch = nullptr;  ///< as many bytes as its scratch function asked for
  Device device;
  void* stream = nullptr;  ///< a GPU's cudaStream_t: the kernel enqueues there and does not wait
};

template <class A>
using KernelFn = void (*)(const KernelCall&, const A&);
/// Bytes of scratch for these shapes. Data pointers are not to be read.
template <class A>
using ScratchFn = int64_t (*)(const KernelCall&, const A&);
/// Whether a kernel for halves takes these shapes. Data pointers are not to be read.
template <class A>
using SuitsFn = bool (*)(const KernelCall&, const A&);

namespace detail {

using AnyFn = void (*)();
struct TableEntry {
  AnyFn run = nullptr, scratch = nullptr, suits = nullptr;
};
struct Invocation {
  const char* name;
  bool updates;
  ByRows by_rows;
  Dtype dtype;
  std::span<const Tensor> in, out;
  const void* attributes;
  void (*run)(AnyFn, const KernelCall&, const void*);
  int64_t (*scratch)(AnyFn, const KernelCall&, const void*);
  bool (*suits)(AnyFn, const KernelCall&, const void*);
  std::shared_ptr<const void> (*keep)(const void*);  // a copy of the attributes
};
void add_kernel(std::string_view name, DeviceType device, Dtype dtype, TableEntry entry);
void launch(const Invocation& invocation);

}  // namespace detail

/// Adds a kernel to the table. Throws `ValueError` when there is one for this name, device and
/// dtype: begin the names of your own kernels with a prefix. `suits` is for halves, which have
/// another way where it says no; null: it takes all shapes.
template <class A>
void register_kernel(const Kernel<A>& kernel, DeviceType device, Dtype dtype,
                     std::type_identity_t<KernelFn<A>> run,
                     std::type_identity_t<ScratchFn<A>> scratch = nullptr,
                     std::type_identity_t<SuitsFn<A>> suits = nullptr) {
  detail::add_kernel(
      kernel.name, device, dtype,
      {reinterpret_cast<detail::AnyFn>(run), reinterpret_cast<detail::AnyFn>(scratch),
       reinterpret_cast<detail::AnyFn>(suits)});
}

/// Runs `kernel` for `dtype` on the device of the first output. Undefined tensors become absent
/// views. Throws `DtypeError` when the table has no such kernel, `memory::OutOfMemory` when there
/// is no room for scratch or for what a library wants besides.
template <class A>
void launch(const Kernel<A>& kernel, Dtype dtype, std::span<const Tensor> in,
            std::span<const Tensor> out, const std::type_identity_t<A>& attributes = {}) {
  // A variable of its own: nvcc 13.0 garbles it as an argument.
  const detail::Invocation invocation{
      kernel.name,
      kernel.updates,
      kernel.by_rows,
      dtype,
      in,
      out,
      &attributes,
      [](detail::AnyFn fn, const KernelCall& call, const void* a) {
        reinterpret_cast<KernelFn<A>>(fn)(call, *static_cast<const A*>(a));
      },
      [](detail::AnyFn fn, const KernelCall& call, const void* a) {
        return reinterpret_cast<ScratchFn<A>>(fn)(call, *static_cast<const A*>(a));
      },
      [](detail::AnyFn fn, const KernelCall& call, const void* a) {
        return reinterpret_cast<SuitsFn<A>>(fn)(call, *static_cast<const A*>(a));
      },
      [](const void* a) -> std::shared_ptr<const void> {
        return std::make_shared<A>(*static_cast<const A*>(a));
      }};
  detail::launch(invocation);
}

/// As above, with the buffers listed in place.
template <class A>
void launch(const Kernel<A>& kernel, Dtype dtype, std::initializer_list<Tensor> in,
            std::initializer_list<Tensor> out, const std::type_identity_t<A>& attributes = {}) {
  launch(kernel, dtype, std::span(in.begin(), in.size()), std::span(out.begin(), out.size()),
         attributes);
}

/// As above; the dtype is that of the first output.
template <class A>
void launch(const Kernel<A>& kernel, std::initializer_list<Tensor> in,
            std::initializer_list<Tensor> out, const std::type_identity_t<A>& attributes = {}) {
  launch(kernel, out.begin()->dtype(), in, out, attributes);
}

/// Hands out pieces of a kernel's scratch, each on a 64-byte boundary. Give it null to count:
/// the scratch function and the kernel then share one description of what they need.
class ScratchCursor {
 public:
  explicit ScratchCursor(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(int64_t count) {
    char* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) & ~int64_t{63};
    return reinterpret_cast<T*>(at);
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

/// Is there a kernel of this name for the device and dtype? Halves that would be widened have none.
bool has_kernel(std::string_view name, DeviceType device, Dtype dtype);

/// One run of a kernel.
struct LaunchEvent {
  const char* kernel;  ///< lives for ever
  bool updates;        ///< it reads its outputs too
  std::span<const View> in, out;
  std::optional<Dtype> widened;  ///< halves of this type run through the float32 kernel
};

/// Sees launches, for profiles and traces.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  /// About to run: its scratch is not there yet.
  virtual void launched(const LaunchEvent& event) = 0;
  /// The kernel of the last event ran, or was enqueued, and gave its scratch back. Not called where
  /// it threw.
  virtual void finished() {}
};

/// Shows an observer every launch of this thread until the scope ends. Scopes nest, and all their
/// observers see a launch, the innermost first.
class LaunchObserverScope {
 public:
  explicit LaunchObserverScope(LaunchObserver& observer);
  ~LaunchObserverScope();
  LaunchObserverScope(const LaunchObserverScope&) = delete;
  LaunchObserverScope& operator=(const LaunchObserverScope&) = delete;

 private:
  friend void detail::launch(const detail::Invocation& invocation);
  LaunchObserver& observer_;
  LaunchObserverScope* before_;
};

}  // namespace brim
