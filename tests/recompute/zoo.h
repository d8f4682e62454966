// The models that recomputation is tested on, as trainings small enough to run many times: few
// classes, two images of the fewest pixels, batches that differ from update to update, momentum.
// They are the models of nn/models/ as they are but for the linear layers of AlexNet and VGG, which
// have 64 outputs instead of 4096, and U-Net, which has a quarter of its channels and the mean of
// all pixels' scores for a result, so that `Trainer` trains it like the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "brim/train/ladder.h"
#include "brim/train/rehearsal.h"

namespace brim::testing {

struct ZooTraining {
  std::string name;
  int size = 32;
  int64_t batch = 2;
  Dtype dtype = Dtype::float32;
  int64_t steps = 5;
  bool is_small = false;   ///< a step takes some hundredths of a second
  std::string model = {};  ///< empty: it is the name
  /// Are images large enough for convolutions to read what was dropped by rows?
  bool has_rows = false;
  bool leaves_out_float64 = false;  ///< for the time that it takes; others have it

  const std::string& model_name() const { return model.empty() ? name : model; }
};

/// Of a model by name, at the size that suits it, or "by_rows" of it. Throws `ValueError` for one
/// that is not there.
ZooTraining zoo_training(const std::string& name);

/// With the initial values of one seed.
std::unique_ptr<nn::Module> make_zoo_model(const ZooTraining& training, Device device);
Updating make_zoo_updating(nn::Module& model);
TrainerOptions zoo_trainer_options(const ZooTraining& training);
TrainingSetup setup_of(const ZooTraining& training, const std::string& planner = "arena");

/// Whether it takes too long where it runs now; says so.
bool skips(const ZooTraining& training);

}  // namespace brim::testing
