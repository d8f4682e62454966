// Types as flags name them: f32, f16, bf16. Which of them a flag takes is its own check
// (flag_values.h), which runs before the name is looked at here; "auto" is float32 until the plan
// has decided.
#pragma once

#include <string>

#include "brim/core/dtype.h"

namespace brim::apps {

/// float32 for all but "f16" and "bf16"; the flags' own checks refuse others.
inline Dtype dtype_named(const std::string& text) {
  if (text == "bf16") return Dtype::bfloat16;
  return text == "f16" ? Dtype::float16 : Dtype::float32;
}

}  // namespace brim::apps
