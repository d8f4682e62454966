// Values between devices, into tensors that are there already. Within one device `copy_into`
// (tensor.h) is enough; for a new tensor `convert_to`.
#pragma once

#include "brim/core/tensor.h"

namespace brim {

/// As `copy_into`, wherever the two are. Done when it returns. Between devices the elements are
/// converted where they come from, in a copy that is charged there. Throws `ShapeError` for another
/// shape, `DeviceError` for values of the meta device.
void transfer_into(const Tensor& to, const Tensor& from);

/// Elements of the dtype of `to`, row by row, as many as it has. `to` is contiguous.
void copy_from_host(const Tensor& to, const void* elements);

/// The same, but on a GPU it may return before the elements were read: they stay as they are until
/// what is enqueued so far on this thread's stream is done (base/cuda/event.h). From pinned memory
/// (memory/pinned_source.h) the host does not wait at all.
void enqueue_from_host(const Tensor& to, const void* elements);

/// On the CPU: the tensor itself, or a copy that no account in force is charged for, on its way to
/// a file.
Tensor staged_on_host(const Tensor& tensor);

}  // namespace brim
