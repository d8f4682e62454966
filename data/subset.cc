#include "brim/data/subset.h"

#include <utility>

#include "brim/base/error.h"

namespace brim::data {

Subset::Subset(std::shared_ptr<const Dataset> dataset, const std::vector<int64_t>& left_out)
    : dataset_(std::move(dataset)) {
  expect<ValueError>(dataset_ != nullptr, "subset", "expected a data set, got none");
  std::vector<bool> is_out(static_cast<size_t>(dataset_->size()));
  for (int64_t index : left_out) {
    expect<ValueError>(index >= 0 && index < dataset_->size(), "subset",
                       "expected an index below {}, got {}", dataset_->size(), index);
    is_out[static_cast<size_t>(index)] = true;
  }
  for (int64_t i = 0; i < dataset_->size(); ++i)
    if (!is_out[static_cast<size_t>(i)]) kept_.push_back(i);
}

int64_t Subset::of(int64_t index) const {
  expect<ValueError>(index >= 0 && index < size(), "subset", "expected an index below {}, got {}",
                     size(), index);
  return kept_[static_cast<size_t>(index)];
}

}  // namespace brim::data
