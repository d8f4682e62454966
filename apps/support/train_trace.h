// `train --trace FILE`: what the first updates really did with memory and time. FILE.html is a page
// for a browser, with the prediction under the measurement; FILE.json is for Perfetto or
// chrome://tracing. Recording stops after three updates, as all later ones are like the last. In a
// program of your own use `autograd::TraceRecorder` and memory/report/.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "brim/autograd/trace_recorder.h"
#include "brim/apps/support/train_flags.h"
#include "brim/apps/support/train_plan.h"

namespace brim::apps {

/// Before anything that takes long. Throws `ValueError` for an ending that is neither, `FileError`
/// where the file cannot be written.
void check_trace_file(const std::string& path);

class RunTrace {
 public:
  /// Records from now on; does nothing without `--trace`. The references must outlive it.
  RunTrace(const TrainFlags& flags, const MemoryPlan& plan,
           std::shared_ptr<memory::Account> account);
  /// After each update.
  void step();
  /// Writes the file where the run ended before the third update.
  void finish();

 private:
  const TrainFlags& flags_;
  const MemoryPlan& plan_;
  std::shared_ptr<memory::Account> account_;
  int64_t steps_ = 0;  // of this run, which may go on from a checkpoint
  std::optional<autograd::TraceRecorder> recorder_;  // none once the file is written
};

}  // namespace brim::apps
