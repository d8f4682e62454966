// What may put other tensors in the place of an op's inputs before the op sees them: autocast hangs
// here (ops/autocast.h). A call that runs again for backward has the inputs that it had then, so it
// is not asked about twice.
#pragma once

#include "brim/autograd/op.h"

namespace brim::autograd {

class InputRule {
 public:
  virtual ~InputRule() = default;
  /// `op` is about to run with these. Others are made of them by ops, which are prepared in turn.
  virtual void prepare(const Op& op, Tensors& inputs, const Where& where) = 0;
};

/// The rule of this thread, the innermost; null for none.
InputRule* input_rule();

/// Sets it until the scope ends; null: inputs stay as they are.
class InputRuleScope {
 public:
  explicit InputRuleScope(InputRule* rule);
  ~InputRuleScope();
  InputRuleScope(const InputRuleScope&) = delete;
  InputRuleScope& operator=(const InputRuleScope&) = delete;

 private:
  InputRule* before_;
};

}  // namespace brim::autograd
