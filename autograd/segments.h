// Numbers of segments of the tape, which no two share, whichever policy made them: what is made in
// one segment is held for readers in every other (save_policy.h). For writers of policies;
// functions are checkpointed with checkpoint.h.
#pragma once

#include <cstdint>

namespace brim::autograd {

/// The first of `count` numbers in a row.
uint64_t new_segments(uint64_t count);

}  // namespace brim::autograd
