#include "brim/memory/stream.h"

#include <utility>

namespace brim::memory {
namespace {
thread_local int current = 0;
}  // namespace

int current_stream() { return current; }

StreamScope::StreamScope(int stream) : before_(std::exchange(current, stream)) {}

StreamScope::~StreamScope() { current = before_; }

}  // namespace brim::memory
