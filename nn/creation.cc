#include "brim/nn/creation.h"

namespace brim::nn {
namespace {
thread_local TensorOptions current;
}  // namespace

const TensorOptions& creation_options() { return current; }

CreationScope::CreationScope(const TensorOptions& options) : before_(current) {
  expect<DtypeError>(options.dtype == Dtype::float32 || options.dtype == Dtype::float64, "module",
                     "expected float32 or float64 parameters, got {}", to_string(options.dtype));
  current = options;
}

CreationScope::~CreationScope() { current = before_; }

}  // namespace brim::nn
