// The queues of an emulated GPU's streams, for when it is late (troubles.h): a stream's work is
// done in the order of the calls when somebody waits for it, and streams know of each other by
// marks alone. For runtime.cc; threads may call all of it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "brim/tests/support/cuda_emulator/troubles.h"

namespace brim::cuda::emulator {

struct StreamQueue;

/// A place in a queue: behind its first pieces, so many since it was made. The default is nowhere,
/// and reached.
struct Mark {
  std::shared_ptr<StreamQueue> queue;
  size_t after = 0;
};

std::shared_ptr<StreamQueue> new_queue();

/// Adds `work` at the end.
void add(StreamQueue& queue, std::function<void()> work);
/// What is added from here on comes after `mark`.
void add_wait(StreamQueue& queue, Mark mark);
/// The end of what is in the queue now.
Mark end_of(const std::shared_ptr<StreamQueue>& queue);

bool is_reached(const Mark& mark);
/// Does what is before the mark, and of other queues what that waits for.
void run_to(const Mark& mark);
void run_all();

/// What those queues do beside it that nobody waits for.
void set_other_streams(OtherStreams others);

/// Calls `done` once no queue has work left.
void when_idle(std::function<void()> done);

/// A piece of work has thrown; until it is forgiven.
bool is_lost();
void forgive();

}  // namespace brim::cuda::emulator
