#include <cmath>
#include <limits>

#include "brim/core/cuda/strided.cuh"
#include "brim/train/cuda/register.h"
#include "brim/train/mix_formula.h"

namespace brim::cuda {
namespace {

/// Images in pairs: i and count - 1 - i.
struct Pairs {
  uint8_t* images;
  int64_t count, bytes;  // bytes: of an image

  explicit Pairs(const View& images)
      : images(images.as<uint8_t>()),
        count(images.shape[0]),
        bytes(images.shape[1] * images.shape[2] * images.shape[3]) {}
  __device__ uint8_t& first(int64_t pair, int64_t byte) const {
    return images[pair * bytes + byte];
  }
  __device__ uint8_t& second(int64_t pair, int64_t byte) const {
    return images[(count - 1 - pair) * bytes + byte];
  }
};

/// Both of a pair at once, byte by byte.
struct Blend {
  Pairs pairs;
  uint32_t weight;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t pair = at.of[0] / pairs.bytes, byte = at.of[0] % pairs.bytes;
    uint8_t &first = pairs.first(pair, byte), &second = pairs.second(pair, byte);
    const uint32_t a = first, b = second;
    first = mixed_byte(weight, a, b);
    second = mixed_byte(weight, b, a);
  }
};

/// Of every pair a box, of which each row is a stretch of bytes.
struct Exchange {
  Pairs pairs;
  int64_t begin, rows, width, row_bytes;  // begin: of the box; width: of its rows, in bytes
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t row = at.of[0] / width, pair = row / rows;
    const int64_t byte = begin + row % rows * row_bytes + at.of[0] % width;
    uint8_t &first = pairs.first(pair, byte), &second = pairs.second(pair, byte);
    const uint8_t kept = first;
    first = second;
    second = kept;
  }
};

void mix_images(const KernelCall& call, const Mix& mix) {
  constexpr const char* kName = "mix_images";
  const View& images = call.out[0];
  const Pairs pairs(images);
  if (!mix.box) {
    const auto weight = static_cast<uint32_t>(std::lround(mix.share * 65536));
    return for_each_element(call, pairs.count / 2 * pairs.bytes, Blend{pairs, weight}, kName);
  }
  const int64_t channels = images.shape[3], row_bytes = images.shape[2] * channels;
  const Exchange exchange{.pairs = pairs,
                          .begin = mix.box->y * row_bytes + mix.box->x * channels,
                          .rows = mix.box->height,
                          .width = mix.box->width * channels,
                          .row_bytes = row_bytes};
  for_each_element(call, pairs.count / 2 * exchange.rows * exchange.width, exchange, kName);
}

/// A label outside the classes makes its row and its partner's NaN: nothing here can throw.
template <class T>
struct MixLabels {
  kernel::MixLabelsAttributes by;
  int64_t count, classes;
  const int64_t* labels;
  T* targets;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0] / classes, c = at.of[0] % classes;
    const int64_t own = labels[i], other = labels[count - 1 - i];
    const MixedTargets<T> made(by, own, other, classes);
    T target = made.even;
    if (c == own) target += made.own;
    if (c == other) target += made.other;
    targets[at.of[0]] =
        is_label(own) && is_label(other) ? target : std::numeric_limits<T>::quiet_NaN();
  }

 private:
  __device__ bool is_label(int64_t label) const {
    return (label >= 0 && label < classes) || label == data::kIgnoredLabel;
  }
};

template <class T>
void mix_labels(const KernelCall& call, const kernel::MixLabelsAttributes& by) {
  const View& targets = call.out[0];
  for_each_element(call, targets.numel(),
                   MixLabels<T>{by, targets.shape[0], targets.shape[1], call.in[0].as<int64_t>(),
                                targets.as<T>()},
                   "mix_labels");
}

}  // namespace

void register_mix() {
  register_kernel(kernel::mix_images, DeviceType::cuda, Dtype::uint8, mix_images);
  register_kernel(kernel::mix_labels, DeviceType::cuda, Dtype::float32, mix_labels<float>);
  register_kernel(kernel::mix_labels, DeviceType::cuda, Dtype::float64, mix_labels<double>);
}

}  // namespace brim::cuda
