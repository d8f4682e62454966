// What a program asked of memory, and what it computed, in order: buffers with their lifetimes,
// ops, and the sections that the program is made of. Recorded on the meta device by
// `autograd::TraceRecorder`, which is how a step is known before it runs; a recording on a real
// device is the same thing. Plans are made from it (memory/plan/plan.h), pages drawn
// (memory/report/).
//
// Time counts allocations: buffer i is the i-th that was asked for, it lives in [i, death), and an
// op that ran at time t did so when t buffers had been asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/category.h"
#include "brim/memory/live_buffers.h"
#include "brim/memory/plan/lifetime.h"
#include "brim/memory/section.h"
#include "brim/memory/site.h"

namespace brim::memory {

/// Where something in a trace comes from. Like `Site`, with text of its own.
struct Origin {
  std::string op;      ///< "conv2d"; "" outside of ops
  std::string module;  ///< "layer1.0.conv1"
  std::string file;    ///< of the line that called the op
  int64_t line = 0;
  Phase phase = Phase::other;
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// "backward of 'conv2d' in layer1.0.conv1 (resnet.cc:31)", "fetch of 'conv2d' in ..." for a name
/// of memory/fetch_name.h; "" where nothing is known.
std::string to_string(const Origin& origin);

struct TraceBuffer {
  int64_t bytes = 0;                    ///< rounded up to 64
  Category category = Category::other;  ///< the last one that it had
  std::string shape;                    ///< "float32 [64,56,56,64]"; "" where there is no tensor
  Origin origin;
  int64_t run = 0;    ///< equal for the requests of one run of an op, and for those between two
  int64_t birth = 0;  ///< its own number
  int64_t death = 0;  ///< `Trace::end` for what was still held
  /// Time after the last kernel that read or wrote it; `birth` where none did.
  int64_t last_use = 0;
  friend bool operator==(const TraceBuffer&, const TraceBuffer&) = default;
};

struct TraceOp {
  Origin origin;
  int64_t begin = 0, end = 0;            ///< time
  std::vector<int64_t> inputs, outputs;  ///< buffers that its kernels read and wrote
  double flops = 0;
  int64_t bytes_moved = 0;  ///< that its kernels read and wrote, scratch left out
  /// Since the recording began; 0 on the meta device, where nothing runs. On a GPU kernels are
  /// enqueued then, not done.
  double begin_seconds = 0, end_seconds = 0;
  friend bool operator==(const TraceOp&, const TraceOp&) = default;
};

/// A part of the program, of the same kind and size as others maybe.
struct TraceSection {
  Section section;
  int64_t begin = 0, end = 0;  ///< time
  int64_t step = -1;           ///< number of the training step that it is part of; -1 for none
  friend bool operator==(const TraceSection&, const TraceSection&) = default;
};

struct Trace {
  std::vector<TraceBuffer> buffers;
  std::vector<TraceOp> ops;
  std::vector<TraceSection> sections;
  int64_t end = 0;  ///< time; as many as there are buffers

  /// Of each buffer.
  std::vector<Lifetime> lifetimes() const;
  /// The largest sum of live bytes, which no planner can hold less than.
  int64_t peak_live() const;
};

}  // namespace brim::memory
