// Which matrices of a, b and y each product of the matmul kernel (ops/matmul.h) takes: leading axes
// of size 1 broadcast, and products that go to one y are summed. For the kernels of every device;
// the order of the products is the order of the sums.
#pragma once

#include "brim/core/launch.h"
#include "brim/core/strided_loop.h"

namespace brim {

/// The leading axes of the operands and the result, and of all of them together.
class MatmulBatch {
 public:
  explicit MatmulBatch(const KernelCall& call)
      : MatmulBatch(call.in[0].shape, call.in[1].shape, call.out[0].shape) {}
  /// Shapes as the kernel gets them, of one rank.
  MatmulBatch(const Shape& a, const Shape& b, const Shape& y)
      : all_(broadcast_shapes(broadcast_shapes(leading(a), leading(b), "matmul"), leading(y),
                              "matmul")),
        a_(steps(a)),
        b_(steps(b)),
        y_(steps(y)) {}

  /// Products.
  int64_t count() const { return numel(all_); }

  /// Numbers of matrices.
  struct Place {
    int64_t a = 0, b = 0, y = 0;
    bool first = true;  ///< no product went to this y before
  };
  Place at(int64_t product) const {
    Place place;
    for (int axis = all_.size() - 1; axis >= 0; --axis) {
      int64_t i = product % all_[axis];
      product /= all_[axis];
      place.a += i * a_[axis];
      place.b += i * b_[axis];
      place.y += i * y_[axis];
      if (y_[axis] == 0 && i > 0) place.first = false;
    }
    return place;
  }

  /// Products that follow each other at even distances, each with a y of its own: as many as the
  /// innermost axes give, and of all the same number.
  struct Run {
    int64_t count = 1, a = 0, b = 0, y = 0;  ///< distances in matrices
  };
  Run run() const {
    Run run;
    for (int axis = all_.size() - 1; axis >= 0; --axis) {
      if (all_[axis] == 1) continue;
      if (y_[axis] == 0) break;
      if (run.count == 1)
        run = {all_[axis], a_[axis], b_[axis], y_[axis]};
      else if (a_[axis] == run.a * run.count && b_[axis] == run.b * run.count &&
               y_[axis] == run.y * run.count)
        run.count *= all_[axis];
      else
        break;
    }
    return run;
  }

 private:
  static Shape leading(const Shape& shape) {
    return Shape(std::span<const int64_t>(shape.begin(), shape.end() - 2));
  }
  Strides steps(const Shape& shape) const {
    return broadcast_strides(leading(shape), contiguous_strides(leading(shape)), all_);
  }

  Shape all_;
  Strides a_, b_, y_;  // in matrices, 0 along axes that broadcast
};

}  // namespace brim
