// How many threads parallel loops (parallel.h) may use. Threads beyond the cores wait for one
// another, and libgomp makes room for all of a pool on the caller's stack: 30,000 of them hang a
// program, and 100,000 end it.
//
// `set_num_threads` refuses more. OMP_NUM_THREADS, which nobody can refuse, is looked at when the
// program starts and whenever `num_threads` is asked: where it is beyond the limit, as many threads
// are taken as there are cores, and a line on standard error says so.
#pragma once

namespace brim {

/// 256, or one for each core of a larger machine.
int most_threads();

}  // namespace brim
