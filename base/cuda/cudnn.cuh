// The functions of cuDNN's graph API that brim calls, by their names without the prefix. Loaded at
// first use. Convolutions of tensors are in ops/cuda/convolution.h.
#pragma once

#include <cudnn_graph.h>

#include "brim/base/device.h"

namespace brim::cuda {

struct Cudnn {
  decltype(cudnnGetVersion)* version;
  decltype(cudnnCreate)* create;
  decltype(cudnnSetStream)* set_stream;
  decltype(cudnnGetErrorString)* error_string;
  decltype(cudnnGetLastErrorString)* last_error_string;
  decltype(cudnnBackendCreateDescriptor)* create_descriptor;
  decltype(cudnnBackendDestroyDescriptor)* destroy_descriptor;
  decltype(cudnnBackendSetAttribute)* set_attribute;
  decltype(cudnnBackendGetAttribute)* get_attribute;
  decltype(cudnnBackendFinalize)* finalize;
  decltype(cudnnBackendExecute)* execute;
};

/// Throws `DeviceError` where the library is not there.
const Cudnn& cudnn();

/// The library's state for a GPU, on its default stream; made at first use, never destroyed. Throws
/// as `check_cudnn`.
cudnnHandle_t cudnn_handle(Device device);

/// Throws `AllocationError` for want of memory, else `DeviceError`, which names the call and status
/// and what the library says besides.
void check_cudnn(cudnnStatus_t status, const char* call);

/// Whether cuDNN says that it got no memory.
bool is_allocation_failure(cudnnStatus_t status);

}  // namespace brim::cuda
