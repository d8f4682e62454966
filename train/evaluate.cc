#include "brim/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "brim/autograd/op.h"
#include "brim/nn/eval_scope.h"
#include "brim/ops/cross_entropy.h"
#include "brim/train/upload.h"

namespace brim {
namespace {

/// How many logits come before that of `label` in order of size; of equal ones the first does.
int64_t rank_of(std::span<const float> row, size_t label) {
  float own = row[label];
  return std::ranges::count_if(row.first(label), [own](float v) { return v >= own; }) +
         std::ranges::count_if(row.subspan(label), [own](float v) { return v > own; });
}

/// Of each label in its row of logits; for one that is no class, more than there can be.
std::vector<int64_t> ranks_of(const Tensor& logits, std::span<const int64_t> labels) {
  expect<ShapeError>(logits.dim() == 2 && logits.size(0) == static_cast<int64_t>(labels.size()),
                     "accuracy", "expected one row of logits for each of {} labels, got {}",
                     labels.size(), logits.shape());
  std::vector<float> values = logits.to_vector<float>();
  auto classes = static_cast<size_t>(logits.size(1));
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < labels.size(); ++i) {
    auto row = std::span(values).subspan(i * classes, classes);
    expect<ValueError>(std::ranges::none_of(row, [](float v) { return std::isnan(v); }), "accuracy",
                       "a logit of row {} is NaN", i);
    auto label = static_cast<size_t>(labels[i]);  // beyond all classes where it was negative
    ranks.push_back(label < classes ? rank_of(row, label) : std::numeric_limits<int64_t>::max());
  }
  return ranks;
}

int64_t count_below(int64_t k, std::span<const int64_t> ranks) {
  return std::ranges::count_if(ranks, [k](int64_t rank) { return rank < k; });
}

// Over the images so far.
struct Sums {
  void add(nn::Module& model, const HostBatch& part, const InputOptions& input) {
    memory::SectionScope section(memory::account(input.device),
                                 {memory::SectionKind::evaluation, part.count()});
    BatchEvaluation result = evaluate_batch(model, upload(part, input), input);
    loss += result.loss.item<double>();
    const std::vector<int64_t> ranks = ranks_of(result.logits, part.labels);
    correct += count_below(1, ranks);
    among5 += count_below(5, ranks);
    images += part.count() - std::ranges::count(part.labels, data::kIgnoredLabel);
  }
  Evaluation means() const {
    auto count = static_cast<double>(images);
    return {.images = images,
            .loss = loss / count,
            .accuracy = static_cast<double>(correct) / count,
            .top5 = static_cast<double>(among5) / count};
  }

  int64_t images = 0, correct = 0, among5 = 0;
  double loss = 0;
};

}  // namespace

int64_t count_correct(const Tensor& logits, std::span<const int64_t> labels, int64_t k) {
  expect<ValueError>(k >= 1, "accuracy", "expected a k of at least 1, got {}", k);
  return count_below(k, ranks_of(logits, labels));
}

BatchEvaluation evaluate_batch(nn::Module& model, data::DeviceBatch batch,
                               const InputOptions& input) {
  autograd::NoGradScope no_grad;
  Tensor logits = model(prepare_input(std::move(batch.images), input));
  Tensor loss = cross_entropy(logits, std::move(batch.labels),
                              {.ignore_index = data::kIgnoredLabel, .reduction = Reduction::sum});
  return {std::move(logits), std::move(loss)};
}

Evaluation evaluate(nn::Module& model, data::Loader& loader, const InputOptions& input,
                    const EvaluationProgress& on_batch, int64_t at_once) {
  nn::EvalScope eval(model);
  Sums sums;
  loader.start_epoch(0);
  while (auto batch = loader.next()) {
    const HostBatch images{.pixels = batch->pixels(),
                           .labels = batch->labels(),
                           .size = batch->size(),
                           .whole = &*batch};
    for (const Part& part : parts_of(batch->count(), at_once > 0 ? at_once : batch->count()))
      sums.add(model, images.part(part), input);
    if (on_batch) on_batch(batch->first_sample() + batch->count(), loader.images());
  }
  if (sums.images == 0)
    raise<FileError>("evaluate", "none of the {} images can be read; the first error: {}",
                     loader.images(), loader.skipped().front());
  return sums.means();
}

}  // namespace brim
