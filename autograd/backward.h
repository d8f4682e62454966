// Reverse-mode differentiation: `backward(loss)` walks the tape from the loss to every leaf that
// asked for a gradient, as `loss.backward()` does in PyTorch; hooks see gradients on their way.
// Gradients add up from call to call until `zero_grad()` of the module or the optimizer drops them.
// Backward is not recorded, so there are no gradients of gradients. In a training loop use
// train/train_step.h, which calls it and undoes a step that fails.
#pragma once

#include <functional>

#include "brim/autograd/node.h"
#include "brim/autograd/op.h"

namespace brim {

struct BackwardOptions {
  /// Gradient of the result; undefined means 1, and then the result must have one element.
  Tensor grad;
  /// Keep saved tensors, so that backward can run again.
  bool retain_graph = false;
  /// Called in the middle of backward with each leaf that has a gradient, as soon as nothing will
  /// be added to `.grad()` any more and no saved tensor holds the leaf's storage (else when
  /// backward is done): the leaf may be overwritten then, and its gradient dropped. Once for each
  /// leaf, however often it is used; its hooks have run. What it throws ends backward. Null for
  /// nobody, which costs nothing.
  std::function<void(const Tensor& leaf)> on_leaf_complete = {};
  /// May the gradient of this leaf come in factors, if the op that makes it has them? Asked of
  /// leaves that get one gradient, have none yet and no hooks. Only beside the other two.
  std::function<bool(const Tensor& leaf)> takes_factors = {};
  /// Called for a leaf whose gradient came so, when and as `on_leaf_complete` is for others;
  /// `.grad()` stays undefined.
  std::function<void(const Tensor& leaf, const autograd::GradientFactors&)> on_leaf_factors = {};
};

/// Adds the gradient of `result` to `.grad()` of every leaf that it was computed from and that
/// asked for one. Gradients of intermediates and saved tensors are freed as soon as they are
/// used. Throws `AutogradError` when `result` was not recorded, the graph was already freed, or a
/// tensor was written after it was saved; `ShapeError` without `grad` unless `result` has one
/// element; `ShapeError`, `DtypeError` or `DeviceError` for a `grad` that does not match it. After
/// any error no more bytes are held than before.
void backward(const Tensor& result, BackwardOptions options = {});

/// Calls `hook` with the gradient of `tensor` during backward, once it is complete. The hook may
/// return another tensor of the same shape, dtype and device in its place (else `backward` throws
/// `ShapeError`, `DtypeError` or `DeviceError`), or an undefined one to leave it. Throws
/// `AutogradError` when `tensor` has no gradient to come. Hooks of results go with the graph, so
/// one may capture its own tensor, which is then held until backward has run. Hooks of leaves stay:
/// one that captures its own leaf keeps it for ever.
void register_hook(const Tensor& tensor, autograd::Hook hook);

}  // namespace brim
