// With BRIM_CUDA_MALLOC=1 a GPU's memory is taken request by request, so that a tool which looks for
// accesses out of bounds sees where each ends.
#include <doctest/doctest.h>

#include <cstdlib>

#include "brim/memory/account.h"
#include "brim/tests/support/cuda_skip.h"

using namespace brim;

TEST_CASE("cuda memory, each request for itself: nothing is shared, and nothing is kept") {
  setenv("BRIM_CUDA_MALLOC", "1", /*overwrite=*/1);
  if (testing::skipped_on_cuda("memory request by request")) return;
  const auto account = memory::account(Device::cuda());
  memory::Block one = account->allocate(1000, memory::Category::other);
  memory::Block other = account->allocate(3000, memory::Category::other);
  CHECK(account->stats().reserved == 1024 + 3008);
  account->release(one);
  CHECK(account->stats().reserved == 3008);
  account->release(other);
  CHECK(account->stats().reserved == 0);
}
