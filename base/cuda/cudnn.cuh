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

/// Throws `MissingLibraryError` where it is not there.
const Cudnn& cudnn();

/// For tests: functions in place of the library's, for as long as they are set; null: the library's
/// own.
void set_cudnn(const Cudnn* table);

/// The library's state for a GPU, on its default stream; made at first use, never destroyed. Throws
/// as `check_cudnn`.
cudnnHandle_t cudnn_handle(Device device);

/// Throws `AllocationError` for want of memory, `UnsupportedError` and `BadParameterError` for the
/// statuses of these names, else `DeviceError`: each names the call and status and what the library
/// says besides.
void check_cudnn(cudnnStatus_t status, const char* call);

/// Whether cuDNN has nothing for what it was asked: the one status that is an answer.
bool is_unsupported(cudnnStatus_t status);

}  // namespace brim::cuda
