// Squeeze-and-excitation: every channel of an image is scaled by a number in [0, 1], its gate, that
// follows from the averages of all channels of the image. Hu, Shen and Sun, "Squeeze-and-Excitation
// Networks", CVPR 2018, with the hard sigmoid of MobileNet V3 (Howard et al., "Searching for
// MobileNetV3", ICCV 2019). One op, since all but its two small products is sweeps over x: averaged
// and scaled image by image, x is read from memory once, where a composition reads it twice, and
// backward moves half as much. For other gates compose it of `global_avg_pool`, `conv2d` and `mul`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// y = x * gate, with one gate per image and channel:
///   gate = hardsigmoid(weight2 hidden + bias2), hidden = relu(weight1 mean + bias1),
///   mean = the average of x over its pixels.
///
/// x is [N,H,W,C], weight1 [S,1,1,C], bias1 [S], weight2 [C,1,1,S], bias2 [C], as 1x1 convolutions
/// have them; of one floating dtype, but that x may be of a lower one than the others, which are
/// float32 then, and so are gates: on a CPU it is so under autocast. The result is of x's
/// shape and dtype, and that of an image does not depend on the others. Saves x, the weights, and
/// of each image mean, hidden and gate.
///
/// On a CPU it is one kernel forward and one backward. With weights of halves, and on a GPU, it is
/// `global_avg_pool`, `conv2d`, `relu`, `conv2d`, `hardsigmoid` and `mul`, of which autocast has
/// the products in the lower dtype. Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors
/// that do not go together, `ShapeError` for an x without pixels.
Tensor squeeze_excitation(Tensor x, Tensor weight1, Tensor bias1, Tensor weight2, Tensor bias2,
                          Where where = Where::current());

namespace kernel {
/// in: x, weight1 [S,1,1,C], bias1, weight2 [C,1,1,S], bias2; out: y, which may be x, and mean
/// [N,1,1,C], hidden [N,1,1,S], gate [N,1,1,C]. Contiguous, as everywhere here. On the CPU, keyed
/// by the dtype of x, y and their gradients; where that is a half, all others are float32.
inline constexpr Kernel<NoAttributes> squeeze_excitation{"squeeze_excitation"};
/// The scaling alone. in: x, gate; out: y, which may be x.
inline constexpr Kernel<NoAttributes> squeeze_excitation_scale{"squeeze_excitation_scale"};
/// in: dy, x, weight1, weight2, mean, hidden, gate; out: dx, which may be dy, dweight1, dbias1,
/// dweight2, dbias2. Each output may be absent, and so may weight1 without dx, and weight2 where
/// dweight2 and dbias2 are all that is wanted.
inline constexpr Kernel<NoAttributes> squeeze_excitation_backward{"squeeze_excitation_backward"};
}  // namespace kernel

}  // namespace brim
