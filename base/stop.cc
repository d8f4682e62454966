#include "brim/base/stop.h"

#include <utility>

namespace brim {
namespace {
thread_local const StopAsked* current = nullptr;
}  // namespace

const StopAsked* stop_asked() { return current; }

void stop_if_asked() {
  if (current != nullptr && (*current)()) [[unlikely]]
    throw Stop();
}

StopScope::StopScope(const StopAsked* asked) : before_(std::exchange(current, asked)) {}

StopScope::~StopScope() { current = before_; }

}  // namespace brim
