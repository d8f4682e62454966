// The CPU's kernels of losses between two tensors of one shape, made from the formulas that all
// devices share (ops/loss_functors.h), and the line that enters a loss into the table. Sums are
// taken in pieces that are cut by the shape alone, so they are the same with any number of
// threads. For elementwise ops that are not losses there is elementwise.cc.
#pragma once

#include "brim/base/parallel.h"
#include "brim/ops/cpu/row_sum.h"
#include "brim/ops/elementwise_loss.h"

namespace brim::cpu {

inline constexpr int64_t kLossPiece = 4096;  // elements; exponentials repay threads early

/// What the terms are made from: input, target, the weight of the element's channel.
template <class T>
struct LossOperands {
  /// The operands are buffers `first` to `first` + 2 of the call.
  LossOperands(const KernelCall& call, size_t first)
      : x(call.in[first].as<T>()),
        target(call.in[first + 1].as<T>()),
        weights(call.in[first + 2].present ? call.in[first + 2].as<T>() : nullptr),
        channels(weights == nullptr ? 1 : call.in[first + 2].numel()),
        count(call.in[first].numel()) {}
  T weight(int64_t i) const { return weights == nullptr ? T(1) : weights[i % channels]; }

  const T *x, *target, *weights;
  int64_t channels, count;
};

inline int64_t loss_pieces(int64_t count) { return (count + kLossPiece - 1) / kLossPiece; }

template <class Formula>
int64_t loss_scratch(const KernelCall& call,
                     const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  ScratchCursor scratch(nullptr);
  if (attributes.reduces) scratch.take<double>(loss_pieces(call.in[0].numel()));
  return scratch.used();
}

template <class T, class Formula>
void loss_kernel(const KernelCall& call,
                 const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  LossOperands<T> by(call, 0);
  T* loss = call.out[0].as<T>();
  auto term = [=, formula = attributes.formula](int64_t i) {
    return formula.loss(by.x[i], by.target[i], by.weight(i));
  };
  if (!attributes.reduces) {
    parallel_for(by.count, kLossPiece, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) loss[i] = term(i);
    });
    return;
  }
  int64_t pieces = loss_pieces(by.count);
  double *sums = ScratchCursor(call.scratch).take<double>(pieces), total = 0;
  parallel_pieces(by.count, pieces, [=](int64_t piece, int64_t begin, int64_t end) {
    sums[piece] = row_sum(term, begin, end - begin);
  });
  for (int64_t piece = 0; piece < pieces; ++piece) total += sums[piece];
  *loss = static_cast<T>(attributes.scale * total);
}

template <class T, class Formula>
void loss_backward_kernel(const KernelCall& call,
                          const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  LossOperands<T> by(call, 1);
  const T* dloss = call.in[0].as<T>();
  T* dx = call.out[0].present ? call.out[0].as<T>() : nullptr;
  T* dtarget = call.out[1].present ? call.out[1].as<T>() : nullptr;
  bool one = attributes.reduces;
  double scale = attributes.scale;
  parallel_for(by.count, kLossPiece, [=, f = attributes.formula](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T g = static_cast<T>(static_cast<double>(dloss[one ? 0 : i]) * scale);
      if (dtarget != nullptr) dtarget[i] = g * f.by_target(by.x[i], by.target[i], by.weight(i));
      if (dx != nullptr) dx[i] = g * f.by_input(by.x[i], by.target[i], by.weight(i));
    }
  });
}

template <class Formula>
void register_loss(const kernel::ElementwiseLoss<Formula>& kernels) {
  constexpr DeviceType kCpu = DeviceType::cpu;
  register_kernel(kernels.forward, kCpu, Dtype::float32, loss_kernel<float, Formula>,
                  loss_scratch<Formula>);
  register_kernel(kernels.forward, kCpu, Dtype::float64, loss_kernel<double, Formula>,
                  loss_scratch<Formula>);
  register_kernel(kernels.backward, kCpu, Dtype::float32, loss_backward_kernel<float, Formula>);
  register_kernel(kernels.backward, kCpu, Dtype::float64, loss_backward_kernel<double, Formula>);
}

}  // namespace brim::cpu
