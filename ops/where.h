// Chooses between two tensors, element by element, with broadcasting: masks, and formulas in
// pieces. Both sides are computed in full before, and a NaN or infinity on the side that is not
// taken leaves no trace here but can in what made it: its gradient there is 0, and 0 times infinity
// is NaN. To limit values use `clamp`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// y = a where the condition is true, b where it is false. The three shapes broadcast by NumPy's
/// rules; the condition is of dtype bool, a and b of one floating dtype. Each of a and b gets dy
/// where it was taken and 0 elsewhere, summed over the axes along which it was repeated. Saves the
/// condition.
/// Throws `ShapeError` when the shapes do not broadcast, `DtypeError` for other dtypes,
/// `DeviceError` for two devices.
Tensor where(Tensor condition, Tensor a, Tensor b, Where where = Where::current());

namespace kernel {
/// in: condition, a, b, any strides, each of a and b possibly absent and then 0; out: y of the
/// shape that they broadcast to, contiguous, which may be a or b.
inline constexpr Kernel<NoAttributes> where{"where"};
}  // namespace kernel

}  // namespace brim
