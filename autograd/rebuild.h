// Making a dropped value again: its producer runs with the inputs and the random address that it
// had, and so gives the same bits; inputs that were dropped too are made first. Nothing recurses,
// so a chain may be as long as it likes. Side effects (`Op::apply_effects`) do not happen again.
//
// What is made on the way is let go after its last use within the rebuilding, but for values that
// backward will read too and that are retained.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "brim/core/tensor.h"

namespace brim::autograd {

class Value;

/// Rows [begin, end) of the first dimension.
struct RowRange {
  int64_t begin, end;
};

/// The values of `wanted`, which is dropped. Throws `AutogradError` where its producer is gone, an
/// input was overwritten, or the op now gives another shape or dtype; `memory::OutOfMemory`.
/// Observers see `Phase::recompute`. `reader` is the op that asks.
Tensor rebuild(Value& wanted, const char* reader);
/// The same of several, which may name a value twice, for one step of backward: what more than one
/// of them lacks is made once; where they lie at different depths of segments, once for each depth.
std::vector<Tensor> rebuild_together(const std::vector<Value*>& wanted, const char* reader);

/// Can rows of `wanted`, which is dropped, be made without the rest of it? So it is where its call
/// works by rows (`Op::is_rowwise`) and draws no random numbers, as do those of all that is missing
/// on the way and will not be retained for other functions of backward; where it is itself made
/// again for each use, whatever is missing on the way.
bool can_rebuild_rows(const Value& wanted);
/// The tensors that they are made from, as `can_rebuild_rows` found them: who wants rows holds them
/// until it has all, since nobody else might. What is missing is made by rows too, or else made
/// again now, as a whole, for which this throws as `rebuild` does.
std::vector<Tensor> sources_of_rows(const Value& wanted);
/// These rows of it. Nothing of what is made is held, and the value stays dropped. Throws as
/// `rebuild` does.
Tensor rebuild_rows(Value& wanted, RowRange rows, const char* reader);

/// What is made again while it lives is let go at its end, unless `keep` was called: a backward
/// pass that fails holds no more than before. Scopes nest; the innermost counts.
class RebuildScope {
 public:
  RebuildScope();
  ~RebuildScope();
  RebuildScope(const RebuildScope&) = delete;
  RebuildScope& operator=(const RebuildScope&) = delete;
  void keep() { made_.clear(); }
  static void note(const std::shared_ptr<Value>& made);

 private:
  std::deque<std::weak_ptr<Value>> made_;
  RebuildScope* before_;
};

}  // namespace brim::autograd
