#include "brim/nn/creation.h"

namespace brim::nn {
namespace {
thread_local TensorOptions current;
}  // namespace

const TensorOptions& creation_options() { return current; }

Dtype slot_dtype(Dtype dtype, const Shape& shape, bool is_parameter) {
  const bool stays = dtype == Dtype::bfloat16 && (!is_parameter || shape.size() < 2);
  return stays ? Dtype::float32 : dtype;
}

CreationScope::CreationScope(const TensorOptions& options) : before_(current) {
  const Dtype dtype = options.dtype;
  expect<DtypeError>(dtype == Dtype::float32 || dtype == Dtype::float64 || dtype == Dtype::bfloat16,
                     "module", "expected float32, float64 or bfloat16 parameters, got {}", dtype);
  current = options;
}

CreationScope::~CreationScope() { current = before_; }

}  // namespace brim::nn
