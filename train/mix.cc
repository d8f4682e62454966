#include "brim/train/mix.h"

#include <algorithm>
#include <cmath>

#include "brim/train/beta.h"
#include "brim/train/cpu/register.h"
#include "brim/train/cuda/register.h"

namespace brim {
namespace {

[[maybe_unused]] const bool kernels_ready =
    cpu::register_train_kernels() && cuda::register_train_kernels();

constexpr const char* kTag = "mix";

double in_65536ths(double share) { return std::round(share * 65536) / 65536; }

void check_alpha(const char* name, double alpha) {
  // Written so that a NaN fails.
  expect<ValueError>(alpha == 0 || (alpha >= 1e-6 && alpha <= 1000), kTag,
                     "expected {} to be 0 or between 1e-06 and 1000, got {}", name, alpha);
}

/// [from, to) of `size` around `center`, `reach` to either side.
std::pair<int, int> range_around(int center, int reach, int size) {
  return {std::max(center - reach, 0), std::min(center + reach, size)};
}

}  // namespace

void check_mix(const MixOptions& options) {
  check_alpha("mixup", options.mixup);
  check_alpha("cutmix", options.cutmix);
}

Mix draw_mix(const MixOptions& options, int height, int width, RandomKey key) {
  check_mix(options);
  expect<ValueError>(options.any(), kTag, "expected mixup or cutmix above 0");
  RandomStream random(key);
  const bool second = random.uniform() < 0.5f;
  const bool cut = options.mixup == 0 || (options.cutmix > 0 && second);
  const double lambda = draw_beta(cut ? options.cutmix : options.mixup, random);
  if (!cut) return {.share = in_65536ths(lambda)};
  const double side = std::sqrt(1 - lambda);
  const auto [left, right] =
      range_around(static_cast<int>(random.below(static_cast<uint64_t>(width))),
                   static_cast<int>(side * width / 2), width);
  const auto [top, bottom] =
      range_around(static_cast<int>(random.below(static_cast<uint64_t>(height))),
                   static_cast<int>(side * height / 2), height);
  const data::Box box{left, top, right - left, bottom - top};
  const double area = static_cast<double>(box.width) * box.height / height / width;
  return {.share = in_65536ths(1 - area), .box = box};
}

void mix_images(const Tensor& images, const Mix& mix) {
  expect<DtypeError>(images.dtype() == Dtype::uint8, kTag, "expected images of uint8, got {}",
                     images.dtype());
  expect<ShapeError>(images.dim() == 4 && images.is_contiguous(), kTag,
                     "expected contiguous images [N,H,W,C], got {}", images.shape());
  if (mix.box)
    expect<ShapeError>(mix.box->x >= 0 && mix.box->y >= 0 && mix.box->width >= 0 &&
                           mix.box->height >= 0 && mix.box->x + mix.box->width <= images.size(2) &&
                           mix.box->y + mix.box->height <= images.size(1),
                       kTag, "expected a box within the images {}, got {} x {} at {},{}",
                       images.shape(), mix.box->width, mix.box->height, mix.box->x, mix.box->y);
  launch(kernel::mix_images, {}, {images}, mix);
}

Tensor mix_labels(const Tensor& labels, int64_t classes, const Mix& mix,
                  const MixLabelsOptions& options) {
  expect<DtypeError>(labels.dtype() == Dtype::int64, kTag, "expected labels of int64, got {}",
                     labels.dtype());
  expect<ShapeError>(labels.dim() == 1 && labels.is_contiguous(), kTag,
                     "expected contiguous labels [N], got {}", labels.shape());
  expect<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1, kTag,
                     "expected a label smoothing in [0, 1], got {}", options.label_smoothing);
  memory::CategoryScope category(memory::Category::input);
  Tensor targets =
      empty({labels.size(0), classes}, {.dtype = options.dtype, .device = labels.device()});
  launch(kernel::mix_labels, {labels}, {targets},
         {.share = mix.share, .label_smoothing = options.label_smoothing});
  return targets;
}

}  // namespace brim
