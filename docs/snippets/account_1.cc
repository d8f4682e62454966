// Where bytes are: the identity, at each turn; refusals; the summary.
#include <cstdio>

#include "brim/core/tensor.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/summary.h"

using namespace brim;
using namespace brim::memory;

namespace {

void is(const Account& account, int64_t live, int64_t cached, int64_t fragmented,
        int64_t reserved) {
  AccountStats s = account.stats();
  std::printf("live %ld cached %ld fragmented %ld reserved %ld\n", static_cast<long>(s.live),
              static_cast<long>(s.cached), static_cast<long>(s.fragmented),
              static_cast<long>(s.reserved));
  check(s.live == live && s.cached == cached && s.fragmented == fragmented, "as the page says");
  check(s.reserved == reserved && reserved == live + cached + fragmented, "the identity");
}

void identity() {
  // [identity]
  auto account = capped_host_account("caching", 6 << 20);
  Block a = account->allocate(100'000, Category::parameters);
  is(*account, 100'032, 1'990'656, 6'464, 2'097'152);

  Block b = account->allocate(3'000'000, Category::activations);
  is(*account, 3'100'032, 1'990'656, 152'192, 5'242'880);

  account->release(b);
  is(*account, 100'032, 5'136'384, 6'464, 5'242'880);

  Block c = account->allocate(2'200'000, Category::activations);
  is(*account, 2'300'032, 2'777'088, 165'760, 5'242'880);
  // [/identity]

  // [refused]
  try {
    account->allocate(2 << 20, Category::activations);
  } catch (const OutOfMemory& error) {
    std::string message = error.what();
    check(message.starts_with("out of memory: asked cpu for 2 MiB (2097152 bytes) of activations; "
                              "device total 6 MiB, live 2.2 MiB, cached 2.6 MiB, fragmented "
                              "161.9 KiB, free 1 MiB"),
          "the first line");
    check(error.shortage().cached + error.shortage().free > (2 << 20), "enough, but in pieces");
  }
  is(*account, 2'300'032, 2'777'088, 165'760, 5'242'880);
  // [/refused]

  account->release(c);
  account->release(a);
  account->empty_cache();
  is(*account, 0, 0, 0, 0);
}

void direct() {
  auto account = capped_host_account("direct");
  Block a = account->allocate(100'000, Category::parameters);
  Block b = account->allocate(3'000'000, Category::activations);
  is(*account, 3'100'032, 0, 0, 3'100'032);
  account->release(b);
  is(*account, 100'032, 0, 0, 100'032);
  account->release(a);
}

void categories() {
  auto account = capped_host_account("caching", 6 << 20);
  AccountScope scope(account);
  // [categories]
  Tensor images = [] {
    CategoryScope category(Category::input);
    return zeros({8, 32, 32, 3}, {.dtype = Dtype::uint8});
  }();
  Tensor x = convert_to(images, {.dtype = Dtype::float32});  // activations, as all else
  images = Tensor();
  AccountStats stats = account->stats();
  check(stats.by_category[static_cast<size_t>(Category::input)] == 0, "gone");
  check(stats.by_category_at_peak[static_cast<size_t>(Category::input)] == 24'576, "was there");
  check(stats.peak_live == 24'576 + 98'304, "both at once");
  // [/categories]
  std::printf("%s", memory_summary(Device::cpu()).c_str());
}

void moves() {
  // [replan]
  auto account = capped_host_account("caching", 32 << 20);
  AccountScope scope(account);
  Tensor weights = full({1 << 20}, 0.5);
  empty({1 << 21});  // gone at once: 8 MiB wait in the cache
  is(*account, 4'194'304, 8'388'608, 0, 12'582'912);

  account->set_cap(6 << 20);  // half of what is reserved
  account->replan(planner_named("direct"));
  is(*account, 4'194'304, 0, 0, 4'194'304);
  check(weights.data<float>()[99] == 0.5f, "the values came along");
  // [/replan]
  account->set_cap(3 << 20);
  try {
    account->replan(planner_named("caching"));
    check(false, "not reached");
  } catch (const OutOfMemory&) {
    is(*account, 4'194'304, 0, 0, 4'194'304);
  }
  check(account->cap() == 3 << 20 && account->planner_name() == "direct", "beyond the cap");
  check(weights.data<float>()[99] == 0.5f, "moved, not lost");
}

void faults() {
  auto account = capped_host_account("direct");
  AccountScope scope(account);
  account->fail_nth(2);
  Tensor first = zeros({16});
  try {
    zeros({16});
  } catch (const OutOfMemory& error) {
    check(error.shortage().injected, "there was room; it was refused all the same");
  }
  Tensor third = zeros({16});  // disarmed
  check(account->stats().requests == 3, "three were made, two served");
}

}  // namespace

int main() {
  identity();
  direct();
  categories();
  moves();
  faults();
}
