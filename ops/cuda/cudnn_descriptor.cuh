// A descriptor of cuDNN's graph API: made, given attributes, finalized, read. Everything in that
// API is one: a tensor, an operation, a graph of them, an engine, a plan.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "brim/base/cuda/cudnn.cuh"

namespace brim::cuda {

class CudnnDescriptor {
 public:
  /// None; `get()` is null.
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    check_cudnn(cudnn().create_descriptor(type, &made), "cudnnBackendCreateDescriptor");
    descriptor_.reset(made);
  }

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values) {
    check_cudnn(cudnn().set_attribute(get(), name, type, count, values),
                "cudnnBackendSetAttribute");
  }
  void set(cudnnBackendAttributeName_t name, int64_t value) {
    set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::initializer_list<int64_t> values) {
    set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.begin());
  }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, double value) {
    set(name, CUDNN_TYPE_DOUBLE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    cudnnBackendDescriptor_t descriptor = value.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
  }

  /// After the last attribute.
  void finalize() { check_cudnn(cudnn().finalize(get()), "cudnnBackendFinalize"); }
  /// As `finalize`; false where the library has nothing for it.
  bool finalize_if_supported() {
    const cudnnStatus_t status = cudnn().finalize(get());
    if (is_unsupported(status)) return false;
    check_cudnn(status, "cudnnBackendFinalize");
    return true;
  }

  int64_t get_int64(cudnnBackendAttributeName_t name) const {
    int64_t value = 0, count = 0;
    check_cudnn(cudnn().get_attribute(get(), name, CUDNN_TYPE_INT64, 1, &count, &value),
                "cudnnBackendGetAttribute");
    return value;
  }
  /// Fills a descriptor of the attribute's type.
  void get_descriptor(cudnnBackendAttributeName_t name, CudnnDescriptor& into) const {
    cudnnBackendDescriptor_t descriptor = into.get();
    int64_t count = 0;
    check_cudnn(
        cudnn().get_attribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &descriptor),
        "cudnnBackendGetAttribute");
  }

 private:
  struct Destroy {
    void operator()(void* descriptor) const noexcept { cudnn().destroy_descriptor(descriptor); }
  };
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace brim::cuda
