#include "brim/base/stand_in.h"

#include <utility>

namespace brim {
namespace {
thread_local StandIn current;
}  // namespace

const StandIn& stand_in() { return current; }

StandInScope::StandInScope(const StandIn& stand_in) : before_(std::exchange(current, stand_in)) {}

StandInScope::~StandInScope() { current = before_; }

}  // namespace brim
