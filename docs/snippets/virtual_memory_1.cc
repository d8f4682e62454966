// What free pages are worth where they lie apart: refused of one address range each, served where
// memory is mapped to addresses page by page.
#include <cstdio>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/stand_in.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;
using namespace brim::memory;

/// One segment, of which pieces are held.
bool serves_from_one_segment() {
  // [segment]
  Account account(Device::meta(), std::make_unique<NullSource>(64 << 20), planner_named("caching"));
  account.release(account.allocate(64 << 20, Category::other));  // the cache keeps it whole
  std::vector<Block> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(account.allocate(2 << 20, Category::other));
  for (size_t i = 0; i < 32; i += 2) account.release(blocks[i]);
  try {
    account.release(account.allocate(24 << 20, Category::other));
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
  // [/segment]
}

int main() {
  check(!serves_from_one_segment(), "a segment goes back as a whole");
  // [gpu]
  StandInScope gpu({.device = Device::cuda(), .is_here = false, .page_bytes = 2 << 20});
  check(serves_from_one_segment(), "pages of a segment go back by themselves");
  // [/gpu]
  std::puts("as the chapter says");
}
