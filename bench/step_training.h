// The training that bench/step_server and bench/step time, the same problem as
// peers/torch_step.py: random normalised images, SGD with momentum. For trainings under a plan of a
// capped account see timed_training.h.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brim/base/parallel.h"
#include "brim/brim.h"

namespace brim::bench {

struct StepOptions {
  std::string model = "resnet50", dtype = "f32", weights;
  int64_t batch = 16, size = 224, classes = 1000;
  int threads = 0;  ///< 0: all cores
  bool keeps_all =
      false;  ///< else results that cost next to nothing are made again, as `train` does
};

inline const std::map<std::string, Dtype> kPrecisions = {
    {"f32", Dtype::float32}, {"bf16", Dtype::bfloat16}, {"f16", Dtype::float16}};

inline void add_flags(CLI::App& app, StepOptions& options) {
  app.add_option("--model", options.model)->capture_default_str();
  app.add_option("--batch", options.batch)->capture_default_str();
  app.add_option("--size", options.size)->capture_default_str();
  app.add_option("--classes", options.classes)->capture_default_str();
  app.add_option("--threads", options.threads, "of the kernels; 0: all cores");
  app.add_option("--dtype", options.dtype, "bf16, f16: mixed precision")
      ->check(CLI::IsMember(kPrecisions));
  app.add_flag("--keep-all", options.keeps_all, "without free recomputation");
  app.add_option("--weights", options.weights, "a file of the model, which may be a pruned one");
}

inline void set_threads(const StepOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
}

class StepTraining {
 public:
  explicit StepTraining(const StepOptions& options)
      : model_(model_of(options)),
        sgd_(model_->named_parameters(), {.momentum = 0.9, .weight_decay = 1e-4}),
        step_(*model_, sgd_,
              {.precision = kPrecisions.at(options.dtype),
               .recompute = options.keeps_all ? RecomputeOptions{} : free_recomputation()}),
        images_(normal({options.batch, options.size, options.size, 3}, 1, RandomKey{1})),
        labels_(random_labels(options.batch, options.classes)) {}

  void step() {
    step_.run(0.01, [&] { return cross_entropy((*model_)(images_), labels_); });
  }

 private:
  static std::unique_ptr<nn::Module> model_of(const StepOptions& options) {
    if (options.weights.empty())
      return nn::make_model(options.model, {.classes = options.classes, .seed = 0});
    auto model = nn::load_model(options.weights, {.model = options.model}).module;
    model->train();
    return model;
  }

  static Tensor random_labels(int64_t count, int64_t classes) {
    std::vector<int64_t> labels;
    RandomStream random(RandomKey{2});
    for (int64_t i = 0; i < count; ++i)
      labels.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(classes))));
    return from_vector(labels, {count});
  }

  std::unique_ptr<nn::Module> model_;
  optim::Sgd sgd_;
  TrainStep step_;
  Tensor images_, labels_;
};

}  // namespace brim::bench
