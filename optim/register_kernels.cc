#include "brim/optim/register_kernels.h"

#include "brim/base/instructions.h"
#include "brim/optim/cpu/register.h"
#include "brim/optim/cuda/register.h"

namespace brim::cpu_x86_64_v4 {
// cpu::register_optimizer_kernels compiled again, with all that it enters
// (bazel/isolated_object.bzl).
bool register_optimizer_kernels();
}  // namespace brim::cpu_x86_64_v4

namespace brim::optim {
namespace {

bool enter_cpu_kernels() {
  return instructions() == Instructions::x86_64_v4 ? cpu_x86_64_v4::register_optimizer_kernels()
                                                   : cpu::register_optimizer_kernels();
}

}  // namespace

bool register_kernels() { return enter_cpu_kernels() && cuda::register_optimizer_kernels(); }

}  // namespace brim::optim
