#include "brim/tests/support/cuda_emulator/threads.h"
#include "brim/tests/support/thread_orders.h"

namespace brim::testing {
namespace {

using cuda::emulator::ThreadOrder;

RunSo in_order(ThreadOrder order) {
  return [order](const std::function<void()>& run) {
    struct Scope {
      ~Scope() { cuda::emulator::set_thread_order(ThreadOrder::forward); }
    } scope;
    cuda::emulator::set_thread_order(order);
    run();
  };
}

}  // namespace

std::vector<std::pair<const char*, RunSo>> other_thread_orders() {
  return {{"threads backward", in_order(ThreadOrder::backward)},
          {"threads shuffled", in_order(ThreadOrder::shuffled)}};
}

bool libraries_see_alignment() { return false; }

}  // namespace brim::testing
