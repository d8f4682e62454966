// All gradients of a depthwise convolution and of the batch norm before it, in two sweeps over x
// instead of four: while rows of x are in the cache they are normalised for the weight's gradient,
// and the rows of the convolution's data gradient are summed for the norm's.
#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/ops/cpu/depthwise_gradient.h"
#include "brim/ops/cpu/depthwise_weight_sweep.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/normalized_conv2d.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;
using weight_sweep::WeightSums;
using weight_sweep::WeightSweep;

class NormalizedDepthwiseBackward {
 public:
  NormalizedDepthwiseBackward(const KernelCall& call, const Attributes& attributes)
      : call_(call),
        epsilon_(attributes.norm.epsilon),
        shape_(call.in[0].shape, call.in[6].shape, call.in[5].shape, attributes.window),
        weights_{shape_, x(), dy()},
        pieces_(pieces_of(shape_)),
        threads_(std::min<int64_t>(num_threads(), pieces_)),
        weights_step_(round_up(shape_.r * shape_.s * shape_.c + 16, 16)),
        cursor_(call.scratch),
        norm_(call.in[0], attributes.norm.activation, cursor_),
        backward_({call.in[0], call.in[1], call.in[2], call.in[3], call.in[4]},
                  {call.out[0], call.out[1], call.out[2]}, attributes.norm, pieces_, cursor_),
        way_(&norm_, shape_, threads_, cursor_),
        blocks_(take_weights<float>(shape_, cursor_)),
        sums_(cursor_.take<float>(threads_ * weights_step_)),
        totals_(cursor_.take<double>(pieces_ * weights_step_)),
        row_(cursor_.take<float>(threads_ * row_step())) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run() {
    const GradientSweep<float> data(shape_, dy(), blocks_, nullptr);
    norm_.set(call_.in[1], call_.in[2], call_.in[3], call_.in[4], epsilon_);
    backward_.start();
    data.order(call_.in[6].as<float>(), blocks_);
    with_window<float>(
        shape_,
        [&](auto window) {
          sweep([&](const Plane<float>& in, int64_t i,
                    float* sums) { weights_.row(window, in, i, sums); },
                [&](const Plane<float>& in, int64_t y, float* to) {
                  data.row(window, in, y, to, /*streaming=*/false);
                });
        },
        [&] {
          sweep([&](const Plane<float>& in, int64_t i, float* sums) { weights_.row(in, i, sums); },
                [&](const Plane<float>& in, int64_t y, float* to) { data.row(in, y, to); });
        });
    if (call_.out[3].present)
      weight_sweep::join_totals(shape_, totals_, pieces_, weights_step_, call_.out[3].as<float>());
    backward_.finish();
  }

 private:
  /// Of the rows of dy, each with sums of its own: a function of the shape, so that the number of
  /// threads changes no bit. Each has enough pixels to repay its sums.
  static int64_t pieces_of(const ConvShape& shape) {
    constexpr int64_t kMost = 32, kPixels = 192;
    return std::clamp<int64_t>(shape.pixels() / kPixels, 1, std::min(kMost, shape.n * shape.p));
  }

  const float* x() const { return call_.in[0].as<float>(); }
  const float* dy() const { return call_.in[5].as<float>(); }
  int64_t dy_rows() const { return shape_.n * shape_.p; }
  int64_t row_elements() const { return shape_.w * shape_.c; }
  int64_t row_step() const { return round_up(row_elements() + 16, 16); }

  template <class WeightRow, class DataRow>
  void sweep(const WeightRow& weight_row, const DataRow& data_row) {
    parallel_pieces(pieces_, threads_, [&](int64_t thread, int64_t first, int64_t last) {
      InputRows<float> in(shape_, x(), way_, thread);
      for (int64_t piece = first; piece < last; ++piece)
        sweep_piece(piece, thread, in, weight_row, data_row);
      stream_fence();
    });
  }

  template <class WeightRow, class DataRow>
  void sweep_piece(int64_t piece, int64_t thread, InputRows<float>& in, const WeightRow& weight_row,
                   const DataRow& data_row) {
    WeightSums<float> sums{sums_ + thread * weights_step_, totals_ + piece * weights_step_,
                           shape_.r * shape_.s * shape_.c};
    sums.clear();
    backward_.clear(piece);
    const int64_t end = dy_rows() * (piece + 1) / pieces_;
    for (int64_t i = dy_rows() * piece / pieces_; i < end; ++i) {
      if (call_.out[3].present) {
        weight_row(in.under(i / shape_.p, weights_.rows_under(i)), i, sums.sums);
        sums.note(shape_.q);
      }
      sweep_rows_of(i, piece, row_ + thread * row_step(), data_row);
    }
    sums.flush();
    backward_.flush(piece);
  }

  /// The rows of x that are the share of row i of dy.
  template <class DataRow>
  void sweep_rows_of(int64_t i, int64_t piece, float* row, const DataRow& data_row) {
    const int64_t image = i / shape_.p, j = i % shape_.p;
    const Plane<float> in{dy() + image * shape_.p * shape_.q * shape_.c, shape_.q, shape_.c};
    for (int64_t y = shape_.h * j / shape_.p; y < shape_.h * (j + 1) / shape_.p; ++y) {
      data_row(in, y, row);
      backward_.add(piece, row, (image * shape_.h + y) * row_elements(), row_elements());
    }
  }

  const KernelCall& call_;
  double epsilon_;
  ConvShape shape_;
  WeightSweep<float> weights_;
  int64_t pieces_, threads_, weights_step_;
  ScratchCursor cursor_;
  InputNorm norm_;
  NormBackward backward_;
  OnTheWay way_;
  float* blocks_;
  float* sums_;     ///< of each thread
  double* totals_;  ///< of each piece
  float* row_;      ///< of each thread: one of the gradient of what was normalised
};

int64_t scratch(const KernelCall& call, const Attributes& attributes) {
  return NormalizedDepthwiseBackward(call, attributes).scratch_bytes();
}

void run(const KernelCall& call, const Attributes& attributes) {
  NormalizedDepthwiseBackward(call, attributes).run();
}

}  // namespace

void register_normalized_depthwise_backward() {
  register_kernel(kernel::normalized_depthwise_backward, DeviceType::cpu, Dtype::float32, run,
                  scratch);
}

}  // namespace brim::cpu
