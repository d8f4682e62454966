#include "brim/train/batch_tuning.h"

#include <optional>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/plan/batch.h"
#include "brim/train/parts.h"
#include "brim/train/rehearsed_plan.h"

namespace brim {
namespace {

int64_t peak_without_scratch(const memory::Trace& trace) {
  std::vector<memory::Lifetime> lifetimes;
  for (const memory::TraceBuffer& buffer : trace.buffers)
    if (buffer.category != memory::Category::scratch)
      lifetimes.push_back({buffer.birth, buffer.death, buffer.bytes});
  return memory::most_live(lifetimes, trace.end);
}

class Search {
 public:
  explicit Search(const BatchTuning& tuning) : tuning_(tuning) {}

  TunedBatch tune() {
    TunedBatch tuned;
    tuned.least = find_least();
    memory::BatchFound found =
        memory::largest_batch({.bytes = [&](int64_t batch) { return bytes(batch); },
                               .bound = [&](int64_t batch) { return bound(batch); },
                               .limit = tuning_.limit,
                               .least = tuned.least,
                               .most = tuning_.most,
                               .multiple = tuning_.multiple});
    tuned.batch = tuned.largest = found.batch;
    tuned.memory = found.batch > 0 ? *fits_ : plan_least(tuned.least);
    int64_t next = found.batch + tuning_.multiple;
    if (found.batch > 0 && next <= tuning_.most)
      tuned.next_takes = next == found.refused ? bound(next) : refused(next);
    if (found.batch > 0 && tuning_.update_images > 0) make_even(tuned);
    tuned.rehearsals = rehearsals_;
    return tuned;
  }

 private:
  MetaProgram program(RehearsalOptions options) {
    ++rehearsals_;
    return [options = std::move(options)](const auto& state_is_held) {
      rehearse(options, state_is_held);
    };
  }

  // Some models cannot train with one image: batch norm wants two values per channel.
  int64_t find_least() {
    expect<ValueError>(tuning_.limit > 0, "batch", "expected a limit above 0, got {}",
                       tuning_.limit);
    int64_t first = tuning_.multiple;
    if (first >= 2 || first + tuning_.multiple > tuning_.most) return first;
    try {
      bound(first);
      return first;
    } catch (const ValueError&) {
      return first + tuning_.multiple;
    }
  }

  // One micro-step of its size is part of every training with `batch`, or holds less where its
  // gradients stay factors. More images make no buffer of it smaller; it has the same ones but for
  // scratch, and factors, which never take more than the gradient that comes in their place.
  int64_t bound(int64_t batch) {
    RehearsalOptions options = tuning_.rehearsal(batch);
    options.updates = 2;
    options.effective_batch = options.last_update = options.evaluated = 0;
    return peak_without_scratch(trace_on_meta(program(std::move(options))));
  }

  // What it takes without a limit.
  StepMemory plan(int64_t batch) {
    return plan_under(tuning_.planner, program(tuning_.rehearsal(batch))).predicted;
  }

  // As few parts as the largest batch needs, or the next number of them that fits: scratch may grow
  // as a batch shrinks.
  void make_even(TunedBatch& tuned) {
    int64_t parts = count_parts(tuning_.update_images, tuned.largest);
    for (;; ++parts) {
      int64_t in_each = (tuning_.update_images + parts - 1) / parts;
      int64_t batch = round_up(in_each, tuning_.multiple);
      if (batch >= tuned.largest) return;  // they are even
      if (batch <= tuned.least) return;
      if (bytes(batch) > tuning_.limit) continue;
      tuned.batch = batch;
      tuned.memory = *fits_;
      return;
    }
  }

  // Where nothing fits. An update in parts may need more images in each than one micro-step does.
  StepMemory plan_least(int64_t& least) {
    for (;; least += tuning_.multiple) {
      try {
        return plan(least);
      } catch (const ValueError&) {
        if (least + tuning_.multiple > tuning_.most) throw;
      }
    }
  }

  bool is_arena() const { return tuning_.planner == "arena"; }

  // An update may end with so small a part that batch norm has too few values in it.
  int64_t bytes(int64_t batch) {
    try {
      return is_arena() ? packed(batch) : rehearsed(batch);
    } catch (const ValueError&) {
      if (tuning_.update_images == 0) throw;
      return tuning_.limit + 1;
    }
  }

  // What is live needs no packing to be too much.
  int64_t packed(int64_t batch) {
    int64_t bytes =
        measure_on_meta(memory::planner_named("direct"), program(tuning_.rehearsal(batch)))
            .peak_live;
    if (bytes <= tuning_.limit) {
      fits_ = plan(batch);
      bytes = fits_->peak_reserved;
    }
    if (bytes > tuning_.limit) next_takes_ = bytes;
    return bytes;
  }

  // With the limit as the run has it: what a planner gives back there counts.
  int64_t rehearsed(int64_t batch) {
    try {
      fits_ = measure_on_meta(memory::planner_named(tuning_.planner),
                              program(tuning_.rehearsal(batch)), {.capacity = tuning_.limit});
      return fits_->peak_reserved;
    } catch (const memory::OutOfMemory&) {
      return tuning_.limit + 1;
    }
  }

  // Of the batch that was refused last by itself.
  int64_t refused(int64_t batch) { return is_arena() ? next_takes_ : plan(batch).peak_reserved; }

  const BatchTuning& tuning_;
  std::optional<StepMemory> fits_;
  int64_t next_takes_ = 0;  // of the batch that was refused last by its packing
  int64_t rehearsals_ = 0;
};

}  // namespace

TunedBatch tune_batch(const BatchTuning& tuning) { return Search(tuning).tune(); }

}  // namespace brim
