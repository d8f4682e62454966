#include "brim/data/device_batch.h"

#include "brim/base/cuda/graph.h"
#include "brim/base/cuda/stream.h"
#include "brim/core/transfer.h"
#include "brim/data/copy_mark.h"
#include "brim/memory/category.h"
#include "brim/memory/stream.h"

namespace brim::data {
namespace {

void enqueue_from(const Batch& slot, const DeviceBatch& batch, const uint8_t* pixels,
                  const int64_t* labels) {
  const cuda::Stream& stream =
      cuda::numbered_stream(batch.images.device(), memory::current_stream());
  slot.copies().prepare(stream);
  enqueue_from_host(batch.images, pixels);
  slot.copies().set(stream);  // also where the next one fails
  enqueue_from_host(batch.labels, labels);
  slot.copies().set(stream);
}

}  // namespace

DeviceBatch empty_batch(int64_t count, int size, Device device) {
  memory::CategoryScope category(memory::Category::input);
  memory::SiteScope site({.op = "batch"});
  return {empty({count, size, size, 3}, {.dtype = Dtype::uint8, .device = device}),
          empty({count}, {.dtype = Dtype::int64, .device = device})};
}

DeviceBatch to_device(std::span<const uint8_t> pixels, std::span<const int64_t> labels, int size,
                      Device device, const Batch* slot) {
  auto count = static_cast<int64_t>(labels.size());
  expect<ShapeError>(static_cast<int64_t>(pixels.size()) == count * size * size * 3, "batch",
                     "expected {} bytes for {} images of {} x {} pixels, got {}",
                     count * size * size * 3, count, size, size, pixels.size());
  DeviceBatch batch = empty_batch(count, size, device);
  if (slot != nullptr && device.is_cuda() && !cuda::is_recording()) {
    enqueue_from(*slot, batch, pixels.data(), labels.data());
  } else {
    copy_from_host(batch.images, pixels.data());
    copy_from_host(batch.labels, labels.data());
  }
  return batch;
}

DeviceBatch to_device(const Batch& batch, Device device) {
  return to_device(batch.pixels(), batch.labels(), batch.size(), device, &batch);
}

}  // namespace brim::data
