#include "brim/ops/register_kernels.h"

#include "brim/base/instructions.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cuda/register.h"

namespace brim::cpu_x86_64_v4 {
// cpu::register_kernels compiled again, with all that it enters (bazel/isolated_object.bzl).
bool register_kernels();
}  // namespace brim::cpu_x86_64_v4

namespace brim {
namespace {

bool enter_cpu_kernels() {
  return instructions() == Instructions::x86_64_v4 ? cpu_x86_64_v4::register_kernels()
                                                   : cpu::register_kernels();
}

}  // namespace

bool register_kernels() { return enter_cpu_kernels() && cuda::register_kernels(); }

}  // namespace brim
