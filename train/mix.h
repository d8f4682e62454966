// Batches whose images and labels are mixed in pairs. mixup: Zhang et al., "mixup: Beyond Empirical
// Risk Minimization", ICLR 2018. CutMix: Yun et al., "CutMix: Regularization Strategy to Train
// Strong Classifiers with Localizable Features", ICCV 2019. For long trainings that overfit; with
// it the training loss is that of mixed images, which no longer compares with other runs'.
//
// Image i is mixed with image N-1-i of its batch: pairs trade in place, so that no second batch is
// held; an odd batch leaves its middle image as it is. `training_loss` (train/trainer.h) does all
// of it for `TrainerOptions::mix`.
#pragma once

#include <optional>

#include "brim/autograd/random_context.h"
#include "brim/core/launch.h"
#include "brim/data/image.h"

namespace brim {

/// The share of an image is drawn from Beta(a, a); 0 leaves that kind out. With both, each update
/// takes one of them, as likely as the other.
struct MixOptions {
  double mixup = 0;
  double cutmix = 0;

  bool any() const { return mixup > 0 || cutmix > 0; }
};

/// Throws `ValueError` naming a value that is neither 0 nor from 1e-6, below which every share is 0
/// or 1 anyhow, to 1,000.
void check_mix(const MixOptions& options);

/// What becomes of one batch: the same for all its pairs.
struct Mix {
  /// Of image i in itself; its partner has the rest. In 65536ths, so that bytes and labels agree.
  double share = 1;
  /// CutMix: the rectangle that partners exchange. None for mixup.
  std::optional<data::Box> box = {};
};

/// Draws for images of height x width pixels, `options.any()`. A rectangle has 1 - lambda of the
/// area, lies around a point uniform in the image and is cut to it; the share is then what is left.
Mix draw_mix(const MixOptions& options, int height, int width, RandomKey key);

/// Mixes bytes [N,H,W,C] in place: share * x[i] + (1 - share) * x[N-1-i], rounded, or inside of the
/// box x[N-1-i] and outside x[i]. Before normalisation, which is linear and does not mind. Throws
/// `ShapeError` or `DtypeError` for another tensor, or a box beyond the images.
void mix_images(const Tensor& images, const Mix& mix);

struct MixLabelsOptions {
  /// What a label gives evenly to all classes, as in `CrossEntropyOptions`; in [0, 1]. It belongs
  /// here: cross entropy of distributions cannot tell which of them are of ignored labels.
  double label_smoothing = 0;
  Dtype dtype = Dtype::float32;  ///< or float64
};

/// The targets that go with them, [N,classes]: the distribution of a label times share, plus that
/// of its partner's times 1 - share. With a smoothing of s, that of a label is 1 - s there plus
/// s / classes everywhere. labels int64 [N]; one of -100 (`data::kIgnoredLabel`) adds nothing.
/// Throws `ShapeError` or `DtypeError` for other labels, `ValueError` for a smoothing out of range
/// and, on the CPU, for the first label outside [0, classes); on a GPU its row and its partner's
/// are NaN.
Tensor mix_labels(const Tensor& labels, int64_t classes, const Mix& mix,
                  const MixLabelsOptions& options = {});

namespace kernel {
/// out: images, uint8 [N,H,W,C], in place. Contiguous.
inline constexpr Kernel<Mix> mix_images{"mix_images", /*updates=*/true};
struct MixLabelsAttributes {
  double share = 1;
  double label_smoothing = 0;
};
/// in: labels, int64 [N]; out: targets [N,C], float32 or float64. Contiguous.
inline constexpr Kernel<MixLabelsAttributes> mix_labels{"mix_labels"};
}  // namespace kernel

}  // namespace brim
