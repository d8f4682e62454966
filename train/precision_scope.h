// The precision of a step's forward pass, or of an evaluation: mixed where one was chosen. In a
// program of its own open an `Autocast` (ops/autocast.h).
#pragma once

#include <optional>

#include "brim/ops/autocast.h"

namespace brim {

/// Of float32 nothing is switched: what the caller's scopes say goes on.
class PrecisionScope {
 public:
  explicit PrecisionScope(Dtype precision) {
    if (is_low_precision(precision)) autocast_.emplace(precision);
  }

 private:
  std::optional<Autocast> autocast_;
};

}  // namespace brim
