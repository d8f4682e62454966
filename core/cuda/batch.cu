#include "brim/core/cuda/batch.cuh"
#include "brim/core/cuda/batch.h"

namespace brim::cuda {
namespace {

thread_local int scopes = 0;
thread_local int64_t started = 0;
thread_local Gathered* gathered = nullptr;

}  // namespace

void note_batch_started() { ++started; }
int64_t batches_started() { return started; }

bool gathers() { return scopes > 0; }

void gather_in(Gathered* next) {
  if (gathered != nullptr && gathered != next) gathered->start();
  gathered = next;
}

void start_gathered() { gather_in(nullptr); }

BatchScope::BatchScope() { ++scopes; }

BatchScope::~BatchScope() {
  if (--scopes == 0) gather_in(nullptr);
}

}  // namespace brim::cuda
