// The numbers of gpu_context.md: pages of a GPU, and what a plan for a card that is not here
// counts.
#include <cstdio>

#include "brim/base/cuda/devices.h"
#include "brim/brim.h"
#include "brim/memory/account.h"
#include "brim/train/cards.h"

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

}  // namespace

int main() {
  check_pages();
  check_card();
  std::puts("as the chapter says");
}
