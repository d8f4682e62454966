// Unstructured pruning: single weights are zero and stay zero while the rest trains on. PyTorch's
// `torch.nn.utils.prune`.
//
//   shrink::WeightMasks masks(model, {.amount = 0.8});
//   optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});  // or masks.apply_to(its state)
//   ... training steps ...
//   masks.make_permanent();
//
// It saves neither bytes nor time by itself: zeros are stored and multiplied as any other number,
// and a mask takes a byte a weight beside them. A file of compressed rows is smaller
// (shrink/sparse_weights.h). For a model that is smaller and faster see shrink/prune.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brim/core/launch.h"
#include "brim/nn/module.h"

namespace brim::shrink {

enum class MaskMethod {
  l1,      ///< the smallest magnitudes go: `l1_unstructured`, `global_unstructured`
  random,  ///< `random_unstructured`
};

struct MaskOptions {
  /// The share of the weights that is zero afterwards, in [0, 1].
  double amount = 0.5;
  MaskMethod method = MaskMethod::l1;
  /// Rank the weights of all tensors together; else the same share of each goes.
  bool global = true;
  /// n:m in place of `amount`: of each `of` weights in a row along the inputs `keep` stay. 0: none.
  int64_t keep = 0, of = 0;
  /// Modules and parameters, by dotted name, whose weights are looked at; empty: all. Of those, the
  /// parameters of two dimensions or more.
  std::vector<std::string> only, exclude;
  uint64_t seed = 0;  ///< of `MaskMethod::random`
};

class WeightMasks {
 public:
  /// Sets weights to zero, and their gradients from now on, before hooks registered later, clipping
  /// and the update see them. Neither momentum nor weight decay then moves them: what is 0 with a
  /// gradient of 0 stays 0 under SGD and AdamW. Throws `ValueError` for an option out of range,
  /// and a name that the model does not have, with the nearest; `memory::OutOfMemory`; nothing has
  /// changed then. The model must not get other tensors meanwhile, or lose
  /// channels: backward throws `ShapeError` then. On the meta device masks have
  /// their bytes and no values: for a rehearsal (train/rehearsal.h), whose `make_model` makes model
  /// and masks.
  explicit WeightMasks(nn::Module& model, const MaskOptions& options = {});
  /// As `make_permanent`.
  ~WeightMasks();
  WeightMasks(const WeightMasks&) = delete;
  WeightMasks& operator=(const WeightMasks&) = delete;

  /// Masks more of the same tensors: what is masked stays so. As the constructor, with `amount` of
  /// all weights in all.
  void prune(const MaskOptions& options);
  /// Sets to zero what belongs to masked weights in an optimizer's state that was there before, or
  /// averages: tensors called "<what>.<parameter>".
  void apply_to(const std::vector<nn::NamedTensor>& state) const;
  /// Forgets the masks and frees their bytes: the zeros are weights like others.
  void make_permanent();

  /// bool, one for each weight of the parameter of that name: does it stay?
  std::vector<nn::NamedTensor> masks() const;
  /// Share of the weights of all masked tensors that is masked.
  double sparsity() const;

 private:
  struct Masked {
    std::string name;
    Tensor weight;
    std::shared_ptr<Tensor> mask;  // undefined once it is permanent; the hook's too
  };
  std::vector<Masked> masked_;
};

}  // namespace brim::shrink

namespace brim::kernel {

/// in: bool, of the shape of out; out: a tensor whose elements become 0 where it is false.
/// Contiguous.
inline constexpr Kernel<NoAttributes> apply_mask{"apply_mask", /*updates=*/true};

}  // namespace brim::kernel
