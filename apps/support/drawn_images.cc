#include "brim/apps/support/drawn_images.h"

#include <algorithm>

#include "brim/nn/eval_scope.h"
#include "brim/train/evaluate.h"
#include "brim/train/upload.h"

namespace brim::apps {
namespace {

data::LoaderOptions shuffled(const data::Loader& loader) {
  data::LoaderOptions options = loader.options();
  options.shuffle = true;
  options.seed = 0;
  return options;
}

}  // namespace

DrawnImages::DrawnImages(const TrainData& data, int64_t wanted)
    : input_(data.input), wanted_(wanted), loader_(data.val_set, shuffled(*data.validation)) {}

double DrawnImages::accuracy(nn::Module& model) {
  nn::EvalScope eval(model);
  int64_t correct = 0;
  count_ = 0;
  loader_.start_epoch(0);
  while (count_ < wanted_) {
    const std::optional<data::Batch> batch = loader_.next();
    if (!batch) break;
    const HostBatch host{batch->pixels(), batch->labels(), batch->size()};
    correct +=
        count_correct(evaluate_batch(model, upload(host, input_), input_).logits, host.labels);
    count_ += host.count() - std::ranges::count(host.labels, data::kIgnoredLabel);
  }
  return static_cast<double>(correct) / static_cast<double>(std::max<int64_t>(count_, 1));
}

}  // namespace brim::apps
