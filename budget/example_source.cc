#include "brim/budget/example_source.h"

#include <algorithm>

#include "brim/base/error.h"

namespace brim {
namespace {

constexpr const char* kTag = "array source";

int64_t bytes_of(std::span<const std::byte> array) { return static_cast<int64_t>(array.size()); }

}  // namespace

ArraySource::ArraySource(const std::vector<BatchTensor>& described, int64_t batch,
                         std::vector<std::span<const std::byte>> arrays, uint64_t seed)
    : batch_(batch), arrays_(std::move(arrays)), seed_(seed), rows_(arrays_.size()) {
  expect<ValueError>(arrays_.size() == described.size() && !described.empty(), kTag,
                     "expected an array for each of {} tensors, got {}", described.size(),
                     arrays_.size());
  expect<ValueError>(batch > 0, kTag, "expected a batch of at least 1, got {}", batch);
  for (size_t i = 0; i < described.size(); ++i) {
    const int64_t each = described[i].example_bytes(), all = bytes_of(arrays_[i]);
    expect<ValueError>(each > 0 && all % each == 0, kTag,
                       "expected whole examples of {} bytes in '{}', got {} bytes", each,
                       described[i].name, all);
    if (i == 0) examples_ = all / each;
    expect<ValueError>(all / each == examples_, kTag, "'{}' has {} examples, and '{}' {}",
                       described[i].name, all / each, described[0].name, examples_);
    example_bytes_.push_back(each);
  }
  expect<ValueError>(examples_ >= batch, kTag,
                     "expected at least the {} examples of a batch, got {}", batch, examples_);
  start_epoch(0);
}

void ArraySource::start_epoch(int64_t epoch) {
  given_ = 0;
  order_ = data::Permutation(examples_, derive(RandomKey{seed_}, static_cast<uint64_t>(epoch)));
}

std::optional<HostExamples> ArraySource::next() {
  const int64_t count = std::min(batch_, examples_ - given_);
  if (count == 0) return {};
  HostExamples given{.examples = count};
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const auto each = static_cast<size_t>(example_bytes_[i]);
    rows_[i].clear();
    for (int64_t k = 0; k < count; ++k) {
      const auto row = static_cast<size_t>(order_[given_ + k]);
      const std::span<const std::byte> example = arrays_[i].subspan(row * each, each);
      rows_[i].insert(rows_[i].end(), example.begin(), example.end());
    }
    given.tensors.emplace_back(rows_[i]);
  }
  given_ += count;
  return given;
}

std::optional<HostExamples> ImageSource::next() {
  slot_.reset();
  slot_ = loader_.next();
  if (!slot_) return {};
  return HostExamples{.examples = static_cast<int64_t>(slot_->labels().size()),
                      .tensors = {std::as_bytes(slot_->pixels()), std::as_bytes(slot_->labels())}};
}

}  // namespace brim
