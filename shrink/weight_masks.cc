#include "brim/shrink/weight_masks.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <unordered_set>
#include <utility>

#include "brim/autograd/backward.h"
#include "brim/core/transfer.h"
#include "brim/memory/staging_scope.h"
#include "brim/shrink/cpu/register.h"
#include "brim/shrink/cuda/register.h"
#include "brim/shrink/named_parts.h"

namespace brim::shrink {
namespace {

[[maybe_unused]] const bool kernels_ready =
    cpu::register_shrink_kernels() && cuda::register_shrink_kernels();

constexpr const char* kTag = "weight masks";
constexpr float kGone = -1;  // below every score of a weight that is there

void validate(const MaskOptions& o) {
  expect<ValueError>(o.amount >= 0 && o.amount <= 1, kTag, "expected an amount in [0, 1], got {}",
                     o.amount);
  expect<ValueError>(o.of >= 0 && o.keep >= 0 && o.keep <= o.of, kTag,
                     "expected to keep up to m of m weights, got {} of {}", o.keep, o.of);
}

// One tensor that several modules share is masked once, under its first name.
std::vector<nn::NamedTensor> weights_of(nn::Module& model, const MaskOptions& options) {
  require_parts(model, options.only, kTag);
  require_parts(model, options.exclude, kTag);
  std::unordered_set<const TensorBody*> known;
  std::vector<nn::NamedTensor> weights = model.named_parameters();
  std::erase_if(weights, [&](const nn::NamedTensor& weight) {
    return weight.tensor.dim() < 2 || is_in_parts(weight.name, options.exclude) ||
           (!options.only.empty() && !is_in_parts(weight.name, options.only)) ||
           !known.insert(weight.tensor.body()).second;
  });
  expect<ValueError>(!weights.empty(), kTag, "the model has no weights of two dimensions to mask");
  return weights;
}

using Scores = std::vector<float>;

// The lowest go first: what is masked, then by the method. NaN is not there to stay.
Scores scores_of(const Tensor& weight, const Tensor& mask, const MaskOptions& options,
                 const std::string& name) {
  memory::StagingScope staging;
  Scores scores = weight.to_vector<float>();
  const Tensor stays = mask.defined() ? staged_on_host(mask) : mask;
  const RandomKey key = derive(derive({options.seed}, "mask"), name);
  for (size_t i = 0; i < scores.size(); ++i) {
    if (stays.defined() && !stays.data<bool>()[i])
      scores[i] = kGone;
    else if (options.method == MaskMethod::random)
      scores[i] = random_uniform(key, 0, i);
    else
      scores[i] = std::isnan(scores[i]) ? 0 : std::fabs(scores[i]);
  }
  return scores;
}

using Stays = std::vector<std::vector<bool>>;  // of each tensor's weights

// The `count` lowest of all of these go, of equal ones the first.
void drop_lowest(std::span<const Scores> scores, int64_t count,
                 std::span<std::vector<bool>> stays) {
  if (count == 0) return;
  Scores all;
  for (const Scores& of : scores) all.insert(all.end(), of.begin(), of.end());
  std::ranges::nth_element(all, all.begin() + (count - 1));
  const float last = all[static_cast<size_t>(count - 1)];
  int64_t ties = count - std::ranges::count_if(all, [last](float score) { return score < last; });
  for (size_t t = 0; t < scores.size(); ++t)
    for (size_t i = 0; i < scores[t].size(); ++i)
      if (scores[t][i] < last || (scores[t][i] == last && ties-- > 0)) stays[t][i] = false;
}

int64_t share_of(const Scores& scores, double amount) {
  return std::llround(amount * static_cast<double>(scores.size()));
}

// Of each row of `length` inputs, the highest `keep` of every `of`; of equal ones the first.
void keep_pattern(const Scores& scores, int64_t length, const MaskOptions& o,
                  std::vector<bool>& stays) {
  const auto size = static_cast<int64_t>(scores.size());
  std::vector<int64_t> order;
  for (int64_t row = 0; row < size; row += length)
    for (int64_t begin = row; begin < row + length; begin += o.of) {
      order.resize(static_cast<size_t>(std::min(o.of, row + length - begin)));
      std::iota(order.begin(), order.end(), begin);
      std::ranges::stable_sort(order, std::ranges::greater(),
                               [&](int64_t i) { return scores[static_cast<size_t>(i)]; });
      for (size_t i = 0; i < order.size(); ++i)
        if (static_cast<int64_t>(i) >= o.keep) stays[static_cast<size_t>(order[i])] = false;
    }
}

void fill_mask(const Tensor& mask, const std::vector<bool>& stays) {
  const auto elements = std::make_unique<bool[]>(stays.size());
  std::ranges::copy(stays, elements.get());
  copy_from_host(mask, elements.get());
}

void require_same_shape(const Tensor& mask, const Tensor& weight) {
  expect<ShapeError>(mask.shape() == weight.shape(), kTag,
                     "a weight is {} by now, and its mask {}: make masks permanent before channels "
                     "are removed",
                     weight.shape(), mask.shape());
}

void mask_values(const Tensor& mask, const Tensor& values) {
  require_same_shape(mask, values);
  launch(kernel::apply_mask, {mask}, {values});
}

// In place, unless somebody else has it too: what was handed to two inputs of an op, say.
Tensor masked_gradient(const Tensor& mask, const Tensor& gradient) {
  if (!mask.defined()) return {};
  if (is_unshared(gradient) && gradient.is_contiguous()) {
    mask_values(mask, gradient);
    return {};
  }
  Tensor own = clone(gradient);
  mask_values(mask, own);
  return own;
}

}  // namespace

WeightMasks::WeightMasks(nn::Module& model, const MaskOptions& options) {
  validate(options);
  for (const nn::NamedTensor& weight : weights_of(model, options)) {
    memory::CategoryScope category(memory::Category::other);
    Tensor mask =
        full(weight.tensor.shape(), 1, {.dtype = Dtype::boolean, .device = weight.tensor.device()});
    masked_.push_back({weight.name, weight.tensor, std::make_shared<Tensor>(std::move(mask))});
  }
  prune(options);
  for (const Masked& m : masked_)
    if (m.weight.requires_grad())
      register_hook(m.weight, [mask = m.mask](const Tensor& gradient) {
        return masked_gradient(*mask, gradient);
      });
}

WeightMasks::~WeightMasks() { make_permanent(); }

void WeightMasks::prune(const MaskOptions& options) {
  validate(options);
  if (masked_.front().weight.device().is_meta()) return;  // there are no values to rank
  std::vector<Scores> scores;
  Stays stays;
  for (const Masked& m : masked_) {
    expect<ValueError>(m.mask->defined(), kTag, "the masks are permanent by now");
    require_same_shape(*m.mask, m.weight);
    scores.push_back(scores_of(m.weight, *m.mask, options, m.name));
    stays.emplace_back(scores.back().size(), true);
    for (size_t i = 0; i < stays.back().size(); ++i) stays.back()[i] = scores.back()[i] != kGone;
  }
  if (options.of > 0) {
    for (size_t t = 0; t < scores.size(); ++t)
      keep_pattern(scores[t], masked_[t].weight.size(-1), options, stays[t]);
  } else if (options.global) {
    double all = 0;
    for (const Scores& of : scores) all += static_cast<double>(of.size());
    drop_lowest(scores, std::llround(options.amount * all), stays);
  } else {
    for (size_t t = 0; t < scores.size(); ++t)
      drop_lowest({&scores[t], 1}, share_of(scores[t], options.amount), {&stays[t], 1});
  }
  for (size_t t = 0; t < masked_.size(); ++t) {
    fill_mask(*masked_[t].mask, stays[t]);
    mask_values(*masked_[t].mask, masked_[t].weight);
    if (masked_[t].weight.grad().defined()) mask_values(*masked_[t].mask, masked_[t].weight.grad());
  }
}

void WeightMasks::apply_to(const std::vector<nn::NamedTensor>& state) const {
  for (const Masked& m : masked_)
    for (const nn::NamedTensor& of : state)
      if (of.name.ends_with("." + m.name) && of.tensor.shape() == m.weight.shape())
        mask_values(*m.mask, of.tensor);
}

void WeightMasks::make_permanent() {
  for (Masked& m : masked_) *m.mask = Tensor();
}

std::vector<nn::NamedTensor> WeightMasks::masks() const {
  std::vector<nn::NamedTensor> masks;
  for (const Masked& m : masked_) masks.push_back({m.name, *m.mask});
  return masks;
}

double WeightMasks::sparsity() const {
  int64_t gone = 0, all = 0;
  for (const Masked& m : masked_) {
    if (!m.mask->defined() || m.mask->device().is_meta()) continue;
    const Tensor stays = staged_on_host(*m.mask);
    all += stays.numel();
    gone += std::count(stays.data<bool>(), stays.data<bool>() + stays.numel(), false);
  }
  return all == 0 ? 0 : static_cast<double>(gone) / static_cast<double>(all);
}

}  // namespace brim::shrink
