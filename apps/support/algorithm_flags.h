// `--tf32` and `--cudnn-benchmark`: how a GPU's libraries compute, and that it stays so where a run
// goes on: what was chosen is taken from the checkpoint, else from the plan, else from the cache
// folder's file. In a program of your own call `set_allow_tf32` (ops/tf32.h), `set_cudnn_benchmark`
// and `EngineTimingScope` (ops/cudnn_benchmark.h), and the functions of train/engine_file.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "brim/apps/support/app.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"
#include "brim/memory/source.h"
#include "brim/ops/cudnn_benchmark.h"

namespace brim::apps {

void add_tf32_flag(App& app, bool& tf32);
void add_benchmark_flag(App& app, TrainFlags& flags);

/// Throws `ValueError` for what a CPU has not.
void check_tf32(bool tf32, Device device, const std::string& name);
void check_algorithm_flags(const TrainFlags& flags);

/// What the flags say, and the engines that are kept. Before anything is rehearsed. Why some are
/// not taken goes to standard error.
void set_algorithms(const TrainFlags& flags);

/// The note of a checkpoint that has the engines of its run.
inline constexpr const char* kEnginesNote = "engines";
/// For that note and for plans: all that this process computes with; "" for none.
std::string engines_to_keep(Device device);

/// While it is there, rehearsals time what `--cudnn-benchmark` asks for, in bytes that tensors are
/// to have later.
class EngineTiming {
 public:
  explicit EngineTiming(const TrainFlags& flags);
  /// Times what the run will compute and nobody has rehearsed yet. Its batch is known by now.
  void finish(const TrainFlags& flags, const TrainData& data);
  /// "cuDNN: timed the engines of 20 convolutions, ..."; "" where nothing was timed.
  std::string said() const;

 private:
  std::unique_ptr<memory::Source> source_;
  std::optional<EngineTimingScope> scope_;
};

}  // namespace brim::apps
