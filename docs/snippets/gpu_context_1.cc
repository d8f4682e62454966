// What gpu_context.md shows: pages of a GPU, what a plan for a card that is not here counts, and
// engines that are timed before there is a plan.
#include <cstdio>

#include "brim/base/cuda/devices.h"
#include "brim/brim.h"
#include "brim/memory/account.h"
#include "brim/memory/cuda_source.h"
#include "brim/ops/cudnn_benchmark.h"
#include "brim/train/cards.h"
#include "brim/train/engine_file.h"

using namespace brim;
using namespace brim::memory;

namespace {

std::shared_ptr<Account> account_without_bytes() {
  return std::make_shared<Account>(Device::meta(), std::make_unique<NullSource>(),
                                   planner_named("direct"));
}

void check_pages() {
  // [pages]
  StandInScope gpu({.device = Device::cuda(), .is_here = false, .page_bytes = 2 << 20});
  Account account(Device::meta(), std::make_unique<NullSource>(64 << 20), planner_named("direct"));
  Block block = account.allocate(1000, Category::other);
  check(account.stats().live == 1024, "a buffer is rounded up to 64 bytes");
  check(account.stats().reserved == 2 << 20, "what is asked of the driver, to a page");
  // [/pages]
  account.release(block);
}

// [scratch]
/// Of a convolution of [32,56,56,64], on the device that the meta device stands for.
int64_t scratch_of_convolution() {
  auto account = account_without_bytes();
  AccountScope scope(account);
  const TensorOptions on_meta{.device = Device::meta()};
  conv2d(zeros({32, 56, 56, 64}, on_meta), zeros({64, 3, 3, 64}, on_meta), {}, {.padding = 1});
  return account->stats().by_category_at_peak[static_cast<size_t>(Category::scratch)];
}
// [/scratch]

void check_card() {
  if (!cuda::built()) return;  // no kernels for GPUs that could be asked
  // [card]
  const Card& card = *find_card("a100-40gb");
  StandInScope scope(stand_in_for(card));
  check(card.context == 500 << 20, "about so much is never there for tensors");
  check(scratch_of_convolution() >= 64 << 20, "cuDNN cannot be asked: the most that it may take");
  // [/card]
}

// [engines]
/// Plans a training on a GPU that is here, with the fastest engines for its convolutions.
RehearsedPlan plan_with_fastest_engines(Device gpu, int64_t budget, const MetaProgram& training) {
  set_cudnn_benchmark(true);
  take_up_engines(gpu);  // those that were found before
  StandInScope plans_for(stand_in_for(gpu));
  {
    const std::unique_ptr<Source> bytes = cuda_source(gpu);
    bytes->set_capacity(std::min(bytes->capacity(), budget));
    EngineTimingScope timing(*bytes);
    trace_on_meta(training);  // times each convolution that it meets and nobody has timed
  }
  keep_engines(gpu);
  return plan_on_meta(training);  // knows their workspaces
}
// [/engines]

void check_engines() {
  if (!cuda::why_no_device().empty()) return;
  auto convolve = [](const std::function<void()>& state_is_held) {
    const TensorOptions on_meta{.device = Device::meta()};
    const Tensor x = zeros({8, 28, 28, 64}, on_meta), weight = zeros({64, 3, 3, 64}, on_meta);
    state_is_held();
    conv2d(x, weight, {}, {.padding = 1});
  };
  RehearsedPlan plan = plan_with_fastest_engines(Device::cuda(), int64_t{1} << 30, convolve);
  check(plan.predicted.peak_live > 0, "the plan has the tensors of the convolution");
}

}  // namespace

int main() {
  check_pages();
  check_card();
  check_engines();
  std::puts("as the chapter says");
}
