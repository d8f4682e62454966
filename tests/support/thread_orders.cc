#include "brim/tests/support/thread_orders.h"

namespace brim::testing {

std::vector<std::pair<const char*, RunSo>> other_thread_orders() {
  return {{"once more", [](const std::function<void()>& run) { run(); }}};
}

bool libraries_see_alignment() { return true; }

}  // namespace brim::testing
