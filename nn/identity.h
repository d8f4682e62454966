// The module that does nothing, in a place where another might be: in a `Sequential` it keeps the
// numbers, and so the names, of the layers after it. The result is the input itself, not a copy; no
// op runs, so neither traces nor `summarize` show it. An empty `Sequential` does the same, and can
// be filled later.
#pragma once

#include "brim/nn/module.h"

namespace brim::nn {

class Identity final : public Module {
 public:
  Tensor forward(Tensor x) override { return x; }
  std::string_view kind() const override { return "Identity"; }
};

}  // namespace brim::nn
