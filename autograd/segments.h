// Numbers of segments of the tape, which no two share. For policies.
#pragma once

#include <cstdint>

namespace brim::autograd {

/// The first of `count` numbers in a row.
uint64_t new_segments(uint64_t count);

}  // namespace brim::autograd
