// Which results of recorded ops the tape holds until backward, and which it lets go as soon as
// nobody else holds them, to run their producers again. The policy is asked once for each recorded
// call. Without one everything that is saved is held. Ready policies: `checkpoint` (checkpoint.h),
// `FreeRecomputation` (free_recomputation.h), `PlannedRecomputation` and `SegmentedRecomputation`
// (planned_recomputation.h), `DynamicEviction` (dynamic_eviction.h), `OffloadAll` (offload_all.h).
//
// No policy changes a bit of what is computed: a producer runs again with the same inputs and the
// same random address, and its side effects do not happen again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brim/core/tensor.h"
#include "brim/memory/plan/fate.h"

namespace brim {

namespace memory {
class Reclaimer;
}

using Tensors = std::vector<Tensor>;

namespace autograd {

class Node;
class Value;
struct Saves;

using memory::Fate;

/// Is it dropped, and made again by its producer? Else it is kept, here or in the host.
constexpr bool is_made_again(Fate fate) { return fate == Fate::retain || fate == Fate::remake; }

/// A stretch of the tape. What is made in it is dropped, but for what is read outside of it.
struct Segment {
  uint64_t id = 0;  ///< 0: none; of nested ones, the outermost
  int depth = 0;    ///< how many are around; what lies deeper than what is wanted is not retained
};

struct Decision {
  /// Of each output; empty: all are kept. A call runs again only where one is made again.
  std::vector<Fate> fates;
  Segment segment;
  /// What may be dropped is held all the same, for who reads it in backward, until `Value::drop`.
  bool held_until_dropped = false;
};

/// A call that is being recorded.
struct RecordedCall {
  const Node& node;
  const Tensors& outputs;                             ///< all of them
  const std::vector<std::shared_ptr<Value>>& inputs;  ///< null for undefined ones
  const Saves& saves;
  int overwritten = -1;  ///< the input that holds the first output by now
};

class SavePolicy {
 public:
  virtual ~SavePolicy() = default;
  virtual Decision decide(const RecordedCall& call) = 0;
  /// Does what may be dropped stay all the same, for backward of `reader`, which saves it as input
  /// `i`? Only for policies whose decisions do not say it beforehand.
  virtual bool keeps_for(const Node& reader, int i) {
    (void)reader, (void)i;
    return false;
  }
  /// The call with its values, as it was recorded (autograd/node.h). `outputs` are all of them.
  virtual void recorded(const std::shared_ptr<Node>& node, const Tensors& outputs) {
    (void)node, (void)outputs;
  }
  /// Whom to ask for bytes (memory/reclaimer.h) during the forward pass and its backward, so long
  /// must the policy live; null for nobody.
  virtual memory::Reclaimer* reclaimer() { return nullptr; }
};

/// The policy of this thread, the innermost; null for none.
SavePolicy* save_policy();

/// Sets it until the scope ends; null: everything is held.
class SavePolicyScope {
 public:
  explicit SavePolicyScope(SavePolicy* policy);
  ~SavePolicyScope();
  SavePolicyScope(const SavePolicyScope&) = delete;
  SavePolicyScope& operator=(const SavePolicyScope&) = delete;

 private:
  SavePolicy* before_;
};

}  // namespace autograd
}  // namespace brim
