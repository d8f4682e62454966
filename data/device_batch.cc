#include "brim/data/device_batch.h"

#include "brim/core/transfer.h"
#include "brim/memory/category.h"

namespace brim::data {

DeviceBatch empty_batch(int64_t count, int size, Device device) {
  memory::CategoryScope category(memory::Category::input);
  memory::SiteScope site({.op = "batch"});
  return {empty({count, size, size, 3}, {.dtype = Dtype::uint8, .device = device}),
          empty({count}, {.dtype = Dtype::int64, .device = device})};
}

DeviceBatch to_device(std::span<const uint8_t> pixels, std::span<const int64_t> labels, int size,
                      Device device) {
  auto count = static_cast<int64_t>(labels.size());
  expect<ShapeError>(static_cast<int64_t>(pixels.size()) == count * size * size * 3, "batch",
                     "expected {} bytes for {} images of {} x {} pixels, got {}",
                     count * size * size * 3, count, size, size, pixels.size());
  DeviceBatch batch = empty_batch(count, size, device);
  copy_from_host(batch.images, pixels.data());
  copy_from_host(batch.labels, labels.data());
  return batch;
}

DeviceBatch to_device(const Batch& batch, Device device) {
  return to_device(batch.pixels(), batch.labels(), batch.size(), device);
}

}  // namespace brim::data
