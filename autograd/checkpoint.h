// Activation checkpointing by hand: what a function makes is dropped once it has returned, and made
// again when backward comes to it. Only its inputs and results stay.
//
//   Tensor y = autograd::checkpoint([&](Tensor x) { return block(std::move(x)); }, std::move(x));
//
// The function runs once. What runs again are the ops that it recorded, with the same inputs and
// random numbers and without their side effects: batch norm's running statistics move once,
// dropout's masks stay, and it does not matter what else the function reads, prints or counts.
// Inputs and results may be any number of tensors, with and without gradients, among other
// arguments. Checkpoints nest; what a policy around one plans by number does not see its calls. For
// a policy over a whole model see free_recomputation.h.
#pragma once

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "brim/autograd/save_policy.h"
#include "brim/core/tensor.h"

namespace brim::autograd {

/// What ops record while it lives is one segment of the tape. `checkpoint` opens one.
class CheckpointScope final : public SavePolicy {
 public:
  CheckpointScope();
  ~CheckpointScope() override;
  Decision decide(const RecordedCall& call) override;
  /// The policy around is told: it may drop again what backward made again.
  void recorded(const std::shared_ptr<Node>& node, const Tensors& outputs) override;
  /// `result` goes on to be held as what is around this scope holds its own.
  void keep(const Tensor& result) const;

 private:
  Segment outer_, segment_;
  SavePolicy* around_;
  SavePolicyScope scope_;
};

namespace internal {

template <class T>
void keep_all(const CheckpointScope&, const T&) {}  // of a number, say, among the results
template <class A, class B>
void keep_all(const CheckpointScope& scope, const std::pair<A, B>& results);
inline void keep_all(const CheckpointScope& scope, const Tensor& result) { scope.keep(result); }
inline void keep_all(const CheckpointScope& scope, const std::vector<Tensor>& results) {
  for (const Tensor& result : results) scope.keep(result);
}
template <class... T>
void keep_all(const CheckpointScope& scope, const std::tuple<T...>& results) {
  std::apply([&](const auto&... result) { (keep_all(scope, result), ...); }, results);
}
template <class A, class B>
void keep_all(const CheckpointScope& scope, const std::pair<A, B>& results) {
  keep_all(scope, results.first);
  keep_all(scope, results.second);
}

}  // namespace internal

/// fn(args...), whose intermediate results are made again for backward. It returns a tensor, or a
/// vector, pair or tuple of them, which may hold other things as well; results that leave it in
/// another way are dropped too, and made again when they are read. What backward throws where an
/// input was overwritten in the meantime names the op that did.
template <class F, class... Args>
auto checkpoint(F&& fn, Args&&... args) {
  CheckpointScope scope;
  auto result = std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
  internal::keep_all(scope, result);
  return result;
}

}  // namespace brim::autograd
