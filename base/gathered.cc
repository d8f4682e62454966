#include "brim/base/gathered.h"

#include <utility>

namespace brim {
namespace {

thread_local int depth = 0;
thread_local int64_t started = 0;
thread_local Gathered* gathered = nullptr;

}  // namespace

void begin_gathering() { ++depth; }

void end_gathering() {
  --depth;
  start_gathered();
}

int gathering_depth() { return depth; }

void gather_in(Gathered* next) {
  if (gathered == next) return;
  Gathered* before = std::exchange(gathered, next);
  if (before != nullptr) before->start();
}

void start_gathered() { gather_in(nullptr); }

int64_t batches_started() { return started; }

void note_batch_started() { ++started; }

}  // namespace brim
