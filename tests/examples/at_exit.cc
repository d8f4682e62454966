// Linked to a program, makes it fail when tensor bytes are live after main.
#include <unistd.h>

#include <cstdio>

#include "brim/memory/account.h"

namespace {

struct AtExit {
  ~AtExit() {
    auto stats = brim::memory::account(brim::Device::cpu())->stats();
    if (stats.requests > 0 && stats.live == 0) return;
    std::fprintf(stderr, "%lld requests, %lld bytes live at the end\n",
                 static_cast<long long>(stats.requests), static_cast<long long>(stats.live));
    _exit(1);
  }
} at_exit;

}  // namespace
