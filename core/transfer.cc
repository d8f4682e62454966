#include "brim/core/transfer.h"

#include <cstring>

#include "brim/base/cuda/graph.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/cuda/stream.h"
#include "brim/core/call_list.h"
#include "brim/memory/staging_scope.h"
#include "brim/memory/stream.h"

namespace brim {
namespace {

/// All bytes of `from` to `to`; one shape and dtype, both contiguous, one of them on the host.
void transfer(const Tensor& to, const Tensor& from) {
  int64_t bytes = from.numel() * size_of(from.dtype());
  if (from.device().is_cpu())
    cuda::copy_to_device(to.device(), to.data(), from.data(), bytes);
  else
    cuda::copy_to_host(from.device(), to.data(), from.data(), bytes);
  to.storage()->note_write("transfer");
}

}  // namespace

Tensor convert_to(const Tensor& tensor, const TensorOptions& options) {
  Device from = tensor.device(), to = options.device;
  if (from == to && tensor.dtype() == options.dtype) return tensor;
  expect<DeviceError>(!from.is_meta() || to.is_meta(), "convert", "cannot copy from {} to {}", from,
                      to);
  Tensor result = empty(tensor.shape(), options);
  if (from == to) {
    copy_into(result, tensor);
    return result;
  }
  if (to.is_meta()) return result;
  Tensor converted = contiguous(convert_to(tensor, {.dtype = options.dtype, .device = from}));
  if (!from.is_cpu() && !to.is_cpu())
    converted = convert_to(converted, {.dtype = options.dtype, .device = Device::cpu()});
  transfer(result, converted);
  return result;
}

void transfer_into(const Tensor& to, const Tensor& from) {
  const Device there = to.device(), here = from.device();
  if (there == here || there.is_meta()) return copy_into(to, from);
  expect<ShapeError>(to.shape() == from.shape(), "transfer", "expected shape {}, got {}",
                     to.shape(), from.shape());
  const bool is_direct = to.is_contiguous() && (there.is_cpu() || here.is_cpu());
  const Tensor converted = convert_to(from, {.dtype = to.dtype(), .device = here});
  if (is_direct)
    transfer(to, contiguous(converted));
  else
    copy_into(to, convert_to(converted, {.dtype = to.dtype(), .device = there}));
}

void copy_from_host(const Tensor& to, const void* elements) {
  check(to.is_contiguous(), "elements come row by row");
  const int64_t bytes = to.numel() * size_of(to.dtype());
  if (to.device().is_meta()) return;
  if (CallRecording* recording = CallRecording::current(); recording && to.device().is_cpu())
    recording->upload(to.data(), elements, bytes);
  else if (to.device().is_cpu())
    std::memcpy(to.data(), elements, static_cast<size_t>(bytes));
  else
    cuda::copy_to_device(to.device(), to.data(), elements, bytes);
  to.storage()->note_write("transfer");
}

void enqueue_from_host(const Tensor& to, const void* elements) {
  if (!to.device().is_cuda() || cuda::is_recording() || to.numel() == 0)
    return copy_from_host(to, elements);
  check(to.is_contiguous(), "elements come row by row");
  cuda::enqueue_copy(cuda::numbered_stream(to.device(), memory::current_stream()), to.data(),
                     elements, to.numel() * size_of(to.dtype()), cuda::CopyKind::to_device);
  to.storage()->note_write("transfer");
}

Tensor staged_on_host(const Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  memory::StagingScope staging;
  return convert_to(tensor, {.dtype = tensor.dtype(), .device = Device::cpu()});
}

}  // namespace brim
