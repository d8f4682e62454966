#include "brim/ops/tf32.h"

#include <atomic>

namespace brim {
namespace {
std::atomic<bool> allowed = false;
}  // namespace

void set_allow_tf32(bool allow) { allowed = allow; }

bool allow_tf32() { return allowed; }

}  // namespace brim
