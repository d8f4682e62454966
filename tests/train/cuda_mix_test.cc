// Images and labels mixed on a GPU are those of the CPU, bit for bit. Without a GPU they are mixed
// where kernels are emulated.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "brim/base/cuda/devices.h"
#include "brim/tests/support/cuda_skip.h"
#include "brim/train/mix.h"

using namespace brim;

namespace {

Tensor on(Device device, const Tensor& tensor) {
  return convert_to(tensor, {.dtype = tensor.dtype(), .device = device});
}

std::vector<uint8_t> mixed_on(Device device, const Shape& shape, const Mix& mix) {
  const Tensor numbers = uniform(shape, 0, 256, RandomKey{3});
  const Tensor images = on(device, convert_to(numbers, {.dtype = Dtype::uint8}));
  mix_images(images, mix);
  return images.to_vector<uint8_t>();
}

}  // namespace

TEST_CASE("cuda mix: images have the bytes of the CPU") {
  if (testing::skipped_on_cuda("mix")) return;
  std::vector<Mix> mixes;
  for (double share : {0.0, 0.25, 0.7, 1.0})
    mixes.push_back({.share = std::round(share * 65536) / 65536});
  for (const data::Box& box :
       {data::Box{1, 0, 2, 3}, data::Box{0, 0, 5, 4}, data::Box{4, 3, 0, 0}, data::Box{2, 1, 0, 2}})
    mixes.push_back({.share = 0.5, .box = box});
  for (int64_t count : {0, 1, 2, 7, 8})
    for (const Mix& mix : mixes) {
      CAPTURE(count);
      CAPTURE(mix.share);
      CAPTURE(mix.box.has_value());
      const Shape shape{count, 4, 5, 3};
      CHECK(mixed_on(Device::cuda(), shape, mix) == mixed_on(Device::cpu(), shape, mix));
    }
}

TEST_CASE("cuda mix: labels have the targets of the CPU, also ignored ones") {
  if (testing::skipped_on_cuda("mix")) return;
  const Tensor labels = from_vector<int64_t>({2, 0, -100, 1, -100, -100, 1, 3, 0, 3, 2}, {11});
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    for (double smoothing : {0.0, 0.1, 1.0})
      for (double share : {0.0, 0.3, 1.0}) {
        const auto targets_on = [&](Device device) {
          return mix_labels(on(device, labels), 5, {.share = share},
                            {.label_smoothing = smoothing, .dtype = dtype})
              .to_vector<double>();
        };
        CHECK(targets_on(Device::cuda()) == targets_on(Device::cpu()));
      }
}

TEST_CASE("cuda mix: a label that is no class makes its row and its partner's NaN") {
  if (testing::skipped_on_cuda("mix")) return;
  const Tensor labels = from_vector<int64_t>({0, 3, 1, 0, 2, -1, 1, 0}, {8});
  const auto targets =
      mix_labels(on(Device::cuda(), labels), 3, {.share = 0.75}).to_vector<double>();
  for (size_t i = 0; i < targets.size(); ++i) {
    const size_t row = i / 3;
    CHECK(std::isnan(targets[i]) == (row == 1 || row == 6 || row == 5 || row == 2));
  }
}
