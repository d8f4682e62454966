#include "brim/autograd/planned_recomputation.h"

#include "brim/autograd/node.h"
#include "brim/autograd/segments.h"

namespace brim::autograd {

PlannedRecomputation::PlannedRecomputation(std::shared_ptr<const Fates> fates)
    : fates_(std::move(fates)) {}

Decision PlannedRecomputation::decide(const RecordedCall& call) {
  const size_t i = next_++;
  if (i >= fates_->size() || (*fates_)[i].size() != call.outputs.size()) return {};
  return {.fates = (*fates_)[i]};
}

SegmentedRecomputation::SegmentedRecomputation(int64_t segments, int64_t calls)
    : segments_(segments), calls_(calls) {
  expect<ValueError>(segments > 0 && calls > 0, "recompute",
                     "expected segments and calls above 0, got {} and {}", segments, calls);
  first_id_ = new_segments(static_cast<uint64_t>(segments));
}

Decision SegmentedRecomputation::decide(const RecordedCall& call) {
  const int64_t segment = next_++ / calls_;
  if (segment >= segments_ - 1) return {};
  return {.fates = std::vector<Fate>(call.outputs.size(), Fate::retain),
          .segment = {.id = first_id_ + static_cast<uint64_t>(segment), .depth = 1}};
}

}  // namespace brim::autograd
