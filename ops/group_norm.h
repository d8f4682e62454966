// Group normalisation: each sample's channels in groups, every group by its own mean and variance.
// Wu and He, "Group Normalization", ECCV 2018. Nothing depends on the rest of the batch, so it
// trains with few images, where batch norm's statistics are poor, and is the same in training and
// evaluation. It costs two more sweeps than batch norm and fuses no activation. With one group per
// channel it is instance norm.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

struct GroupNormOptions {
  double epsilon = 1e-5;
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, where mean and (biased) variance are
/// those of the group: of one sample, all pixels, C / groups neighbouring channels.
///
/// x is [N, ..., C] of a floating dtype, images [N,H,W,C]; weight and bias are [C], of x's dtype,
/// or float32 where that is lower, and either may be undefined (1 and 0). The statistics are those
/// of a corrected two-pass algorithm (Chan, Golub and LeVeque, "Algorithms for computing the sample
/// variance", 1983), with sums in double. Saves x, weight, and mean and inverse standard deviation
/// of each group.
///
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together,
/// `ShapeError` for channels that the groups do not divide, `ValueError` for groups below 1 or an
/// epsilon that is not positive.
Tensor group_norm(Tensor x, int64_t groups, Tensor weight, Tensor bias,
                  GroupNormOptions options = {}, Where where = Where::current());

namespace kernel {
struct GroupNormAttributes {
  int64_t groups = 1;
  double epsilon = 1e-5;
};
/// in: x [N,P,C], weight [C], bias [C]; out: y, mean and inverse standard deviation (both float64
/// [N,groups]). All but x and y may be absent. Contiguous. Layer norm is the case of one pixel and
/// one group.
inline constexpr Kernel<GroupNormAttributes> group_norm{"group_norm"};
/// in: dy, x, weight, mean, inverse standard deviation; out: dx, dweight, dbias. Each output may be
/// absent, and so may what it does not need. dx may be dy.
inline constexpr Kernel<GroupNormAttributes> group_norm_backward{"group_norm_backward"};
}  // namespace kernel

}  // namespace brim
