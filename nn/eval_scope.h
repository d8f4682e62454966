// Eval mode for a while: batch norms use their running statistics, dropouts do nothing. Afterwards
// each module is in the mode that it was in, as some may be frozen; what was folded meanwhile
// (nn/fold.h) stays in eval mode. It says nothing about gradients: add an `autograd::NoGradScope`
// where none are wanted.
#pragma once

#include <utility>
#include <vector>

#include "brim/nn/module.h"

namespace brim::nn {

class EvalScope {
 public:
  explicit EvalScope(Module& model) {
    for (const NamedModule& named : model.named_modules())
      before_.emplace_back(&named.module, named.module.training());
    model.eval();
  }
  ~EvalScope() {
    // `train` sets all modules below too, and those come later in the list.
    for (auto [module, training] : before_) module->train(training && !module->is_folded());
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};

}  // namespace brim::nn
