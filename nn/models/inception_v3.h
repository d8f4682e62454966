// Inception V3 as torchvision builds it, names included: Szegedy et al., "Rethinking the Inception
// Architecture for Computer Vision", CVPR 2016. Blocks of four branches, with convolutions of 1x7
// and 7x1. Made for images of 299 pixels; takes any from 75. 23.8 million parameters for 1000
// classes, and 3.3 more for the auxiliary classifier, which only training uses, and which is not
// there unless you ask for it.
//
// torchvision's pretrained weights want images in [-1, 1], mean and deviation 0.5. Its model turns
// ImageNet's into those itself (`transform_input`), this one does not.
#pragma once

#include <vector>

#include "brim/nn/layers.h"

namespace brim::nn {

struct InceptionV3Options {
  int64_t classes = 1000;
  double dropout = 0.5;  ///< before the last layer
  /// A second classifier on the middle of the network, for `scores`. The paper, which calls it a
  /// regularizer, found no help in it until late in a training.
  bool auxiliary = false;
};

/// [N,H,W,3] -> [N,classes].
class InceptionV3 final : public Module {
 public:
  struct Scores {
    Tensor logits;
    Tensor auxiliary;  ///< [N,classes] in training, where there is such a classifier; or undefined
  };

  explicit InceptionV3(const InceptionV3Options& options = {});
  /// The logits alone; from them an auxiliary classifier gets no gradient.
  Tensor forward(Tensor x) override;
  /// Of both classifiers, for a loss that weighs the second one by 0.3 (the paper) or 0.4
  /// (torchvision's recipe):
  ///
  ///   auto [logits, auxiliary] = model.scores(images);
  ///   Tensor loss = cross_entropy(std::move(logits), labels);
  ///   Tensor helping = cross_entropy(std::move(auxiliary), labels);
  ///   return add(std::move(loss), mul(std::move(helping), full({}, 0.4)));
  ///
  /// For the auxiliary one images have at least 299 pixels, or it throws `ShapeError`.
  Scores scores(Tensor x, Where where = Where::current());
  /// "AuxLogits", where the model has none.
  std::vector<std::string> skipped_in_files() const override;
  std::string_view kind() const override { return "InceptionV3"; }

 private:
  void add_stem();
  void add_blocks(int64_t classes, bool auxiliary);

  std::vector<Module*> below_, above_;  // the place of the auxiliary classifier
  Module* auxiliary_ = nullptr;
  GlobalAvgPool avgpool_;
  Dropout dropout_;
  Linear fc_;
};

}  // namespace brim::nn
