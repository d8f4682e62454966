// Copies from one device to another.
#include "brim/base/cuda/memory.h"
#include "brim/core/tensor.h"

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
  expect<DeviceError>(!from.is_meta() || to.is_meta(), "convert", "cannot copy from {} to {}",
                      to_string(from), to_string(to));
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

}  // namespace brim
