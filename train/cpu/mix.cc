#include "brim/train/mix.h"

#include <algorithm>
#include <cmath>

#include "brim/base/parallel.h"
#include "brim/train/cpu/register.h"
#include "brim/train/mix_formula.h"

namespace brim::cpu {
namespace {

/// Both of a pair at once.
void blend(uint8_t* __restrict first, uint8_t* __restrict second, int64_t bytes, uint32_t weight) {
#pragma omp simd
  for (int64_t k = 0; k < bytes; ++k) {
    const uint32_t a = first[k], b = second[k];
    first[k] = mixed_byte(weight, a, b);
    second[k] = mixed_byte(weight, b, a);
  }
}

/// Rows of `row_bytes`.
void exchange(uint8_t* first, uint8_t* second, const data::Box& box, int64_t row_bytes,
              int64_t channels) {
  for (int64_t y = box.y; y < box.y + box.height; ++y) {
    const int64_t begin = y * row_bytes + box.x * channels;
    std::swap_ranges(first + begin, first + begin + box.width * channels, second + begin);
  }
}

void mix_images(const KernelCall& call, const Mix& mix) {
  const View& images = call.out[0];
  const int64_t count = images.shape[0], row_bytes = images.shape[2] * images.shape[3];
  const int64_t bytes = images.shape[1] * row_bytes;
  const auto weight = static_cast<uint32_t>(std::lround(mix.share * 65536));
  auto* pixels = images.as<uint8_t>();
  parallel_for(count / 2, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint8_t *first = pixels + i * bytes, *second = pixels + (count - 1 - i) * bytes;
      if (mix.box)
        exchange(first, second, *mix.box, row_bytes, images.shape[3]);
      else
        blend(first, second, bytes, weight);
    }
  });
}

template <class T>
void mix_labels(const KernelCall& call, const kernel::MixLabelsAttributes& by) {
  const int64_t count = call.in[0].shape[0], classes = call.out[0].shape[1];
  const auto* labels = call.in[0].as<int64_t>();
  for (int64_t i = 0; i < count; ++i)
    expect<ValueError>((labels[i] >= 0 && labels[i] < classes) || labels[i] == data::kIgnoredLabel,
                       "mix", "expected labels from 0 to {}, got {} at {}", classes - 1, labels[i],
                       i);
  T* targets = call.out[0].as<T>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t own = labels[i], other = labels[count - 1 - i];
    const MixedTargets<T> made(by, own, other, classes);
    T* row = targets + i * classes;
    std::fill_n(row, classes, made.even);
    if (own != data::kIgnoredLabel) row[own] += made.own;
    if (other != data::kIgnoredLabel) row[other] += made.other;
  }
}

}  // namespace

void register_mix() {
  register_kernel(kernel::mix_images, DeviceType::cpu, Dtype::uint8, mix_images);
  register_kernel(kernel::mix_labels, DeviceType::cpu, Dtype::float32, mix_labels<float>);
  register_kernel(kernel::mix_labels, DeviceType::cpu, Dtype::float64, mix_labels<double>);
}

}  // namespace brim::cpu
