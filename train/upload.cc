#include "brim/train/upload.h"

#include "brim/core/transfer.h"
#include "brim/memory/staging_scope.h"

namespace brim {
namespace {

// The account of the device does not see what is prepared on the host.
Tensor prepare_on_host(const HostBatch& batch, const InputOptions& input) {
  memory::StagingScope staging;
  data::DeviceBatch bytes = batch.upload(Device::cpu());
  return prepare_input(std::move(bytes.images), input);
}

}  // namespace

data::DeviceBatch empty_upload(int64_t images, int size, const InputOptions& input) {
  if (input.as_bytes) return data::empty_batch(images, size, input.device);
  memory::CategoryScope category(memory::Category::input);
  memory::SiteScope site({.op = "batch"});
  return {empty({images, size, size, 3}, {.dtype = input.dtype, .device = input.device}),
          empty({images}, {.dtype = Dtype::int64, .device = input.device})};
}

data::DeviceBatch upload(const HostBatch& batch, const InputOptions& input) {
  if (input.as_bytes) return batch.upload(input.device);
  data::DeviceBatch numbers = empty_upload(batch.count(), batch.size, input);
  transfer_into(numbers.images, prepare_on_host(batch, input));
  copy_from_host(numbers.labels, batch.labels.data());
  return numbers;
}

}  // namespace brim
