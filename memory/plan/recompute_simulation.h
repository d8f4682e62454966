// What it costs to drop and rebuild saved values, or to hold them in host memory: the exact peak of
// live bytes, and the seconds that replays and waits for copies add. This file is the definition
// that plans are made by and that steps are run by. It chooses nothing: recompute.h does.
//
// A step is a sequence of moments: a forward op runs, an op is replayed, or a backward step runs.
//
// 1. Forward ops run in order. Each is a moment, at which all its outputs are made.
// 2. Before a backward step, what it reads and is not there is rebuilt: the producers of what is
//    missing, with the producers of what their replays miss, and so on, each once, in the order of
//    their numbers. Each replay is a moment. Then the step itself is one.
// 3. A replay makes all outputs of its op that may be dropped. One that is there already is made a
//    second time, and gone when the replay ends. Outputs that may not be dropped are not made.
// 4. An instance of a value lives from the moment that makes it to the last moment that reads it,
//    both included; where none does, for the moment that makes it. What forward made is read, for
//    `keep`, by forward ops, replays and steps; for `retain` and `remake` by forward ops only.
// 5. What a replay makes of a `retain` value is there for all that comes, and read by it; there is
//    one such instance. What a replay makes of a `remake` value is there for the replays after it
//    and the step for which it was made, and a later step makes it anew. This holds whether the
//    step needed the value itself or another one did.
// 6. At each moment there live: the fixed bytes, the sources, the instances; at a forward op its
//    scratch, at a replay its replay scratch, the second copies of rule 3 and `held_before` of the
//    coming step, at a step `held`.
//
// A step may do without a value that is not there before its replays (and is not `offload`):
//
// 7. What it reads `by_rows` is made in stretches while it runs, from what its producer's replay
//    reads. Of that, what is not there is rebuilt before, where it is `retain` and this step or a
//    later one reads it; else it is made by rows too, and so on, if it is of the same row group.
//    What is not is rebuilt too; but for a value that is `retain` it is the value that is then, so
//    that it stays. Each op whose rows are made takes its `row_seconds`, once for the step. At the
//    last step that reads the value its bytes count all the same: when its rows are gone, its
//    gradient comes in their place.
// 8. Of a value in `or_sources`, what its producer's replay reads is read at the step instead, and
//    rebuilt before where it is missing. That takes no seconds and no bytes of the value.
//
// With a host, values that backward steps read may be `offload`:
//
// 9. When the last forward op that reads it has run (its own op where none does), its copy to the
//    host begins; where several have the same last reader, in their order. Two copies may be under
//    way: before a third begins, and for all that are left when forward has run, the oldest is
//    waited for and leaves the device, its last moment being that which has just been. Of those
//    that are left when forward has run, what the first three steps read stays: forward's instance
//    is there for all that comes.
// 10. Before a step, and before its replays, what it reads and lies in the host is fetched, one
//     after another. Then fetches of what the next two steps read begin, in their order, while
//     fewer than two are under way: begun and not yet waited for. What was fetched lives from the
//     moment that comes next, and is there for all that comes, as a `retain` value is. What a
//     replay reads, or a step by rules 7 and 8, and lies in the host is fetched at its moment,
//     after a wait for the oldest fetch where two are under way. A replay of its own op makes a
//     second copy (rule 3).
// 11. Copies run beside compute, one after another each way, at `host_bytes_per_second`. Compute
//     takes the seconds of ops, replays and steps, and waits where these rules say so and for what
//     it reads and is not back. `extra_seconds` are those of replays and of these waits.
// 12. All that was offloaded lies in the host when backward begins, and must have room there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim::memory {

struct RecomputeCost {
  int64_t peak = 0;          ///< the most bytes that live at a moment
  double extra_seconds = 0;  ///< of replays, added in the order in which they run, and of waits
  double wait_seconds = 0;   ///< of these, of the waits
  int64_t replays = 0;
  int64_t host_peak = 0;  ///< bytes in the host
};

/// `saving` has an element for each value. Throws `ValueError` for other sizes, for what may not be
/// dropped or offloaded and is, for more bytes than the host has, and what `check_graph` throws.
/// Takes time linear in the reads of all moments.
RecomputeCost simulate_recompute(const RecomputeGraph& graph, std::span<const Fate> saving);

/// All that happens, for who executes a plan or packs it.
struct RecomputeTimeline {
  enum class Kind : uint8_t { forward, replay, backward };
  struct Moment {
    Kind kind = Kind::forward;
    int32_t number = 0;  ///< of the op, or of the backward step
    int64_t bytes = 0;   ///< that live
  };
  struct Instance {
    int32_t value = 0;
    int64_t born = 0, last = 0;  ///< moments, both included
  };
  std::vector<Moment> moments;
  std::vector<Instance> instances;  ///< of values that are no sources, by `born`, then by value
};

/// The same; throws the same.
RecomputeTimeline recompute_timeline(const RecomputeGraph& graph, std::span<const Fate> saving);

}  // namespace brim::memory
