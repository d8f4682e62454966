#include "brim/examples/support/drawn_images.h"

#include <algorithm>

#include "brim/nn/eval_scope.h"
#include "brim/train/evaluate.h"
#include "brim/train/upload.h"

namespace brim::examples {
namespace {

data::LoaderOptions shuffled(const data::Loader& loader) {
  data::LoaderOptions options = loader.options();
  options.shuffle = true;
  options.seed = 0;
  return options;
}

}  // namespace

DrawnImages::DrawnImages(const TrainData& data, int64_t most)
    : input_(data.input), most_(most), loader_(data.val_set, shuffled(*data.validation)) {}

double DrawnImages::accuracy(nn::Module& model) {
  nn::EvalScope eval(model);
  int64_t images = 0, correct = 0;
  loader_.start_epoch(0);
  while (images < most_) {
    const std::optional<data::Batch> batch = loader_.next();
    if (!batch) break;
    const HostBatch host{batch->pixels(), batch->labels(), batch->size()};
    correct +=
        count_correct(evaluate_batch(model, upload(host, input_), input_).logits, host.labels);
    images += host.count() - std::ranges::count(host.labels, data::kIgnoredLabel);
  }
  return static_cast<double>(correct) / static_cast<double>(std::max<int64_t>(images, 1));
}

}  // namespace brim::examples
