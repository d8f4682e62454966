// How a model is trained where nobody says otherwise: a rate that suits a wide network makes a
// narrow one slow, and one for a narrow one makes a wide one diverge. Each model of the registry
// has one beside its name; some were found on the drawn shapes, the others are
// their relatives' (docs/recipes.md), so for data of your own they are where to begin. The rate
// follows the images of an update (optim/rate_rule.h), and here is for those in `batch`.
#pragma once

#include <cstdint>
#include <string>

namespace brim::nn {

struct TrainingRecipe {
  std::string optimizer;    ///< "sgd" or "adamw"
  double rate = 0;          ///< the largest of one cycle, which begins with a rise
  int64_t batch = 32;       ///< images of an update that it is meant for
  double weight_decay = 0;  ///< of sgd an L2 penalty, of adamw decoupled
  double momentum = 0;      ///< of sgd
  /// The part of the rate that weights from a file are trained on with: they have learnt something
  /// already, much of which the rate for new ones undoes.
  double fine_tuning = 0.25;
  int size = 224;       ///< height and width of photographs, in pixels
  int drawn_size = 64;  ///< and of drawings, which say no more for being larger
};

/// That of a name of `model_names()`; throws `ValueError` with the nearest one otherwise.
const TrainingRecipe& training_recipe(const std::string& name);

}  // namespace brim::nn
