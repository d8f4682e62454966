// Which engine of cuDNN computes which convolution on a GPU: those that this process has chosen,
// and those that a file, a plan or a checkpoint offered (train/engine_file.h). An engine that was
// chosen stays, so the same call has the same bits for as long as the process lives. Only what
// keeps choices needs it: ops/cuda/ asks by itself when it meets a convolution for the first time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "brim/base/device.h"

namespace brim {

/// A setting of an engine, by cuDNN's number for it (cudnnBackendKnobType_t).
struct EngineKnob {
  int64_t type = 0, value = 0;
  friend bool operator==(const EngineKnob&, const EngineKnob&) = default;
};

struct EngineChoice {
  int64_t engine = 0;  ///< its number, as cuDNN counts those of an operation
  std::vector<EngineKnob> knobs = {};
  int64_t workspace = 0;  ///< bytes
  bool timed = false;     ///< the fastest of several; else the first by cuDNN's heuristics
  friend bool operator==(const EngineChoice&, const EngineChoice&) = default;
};

/// By what the convolution is called (`cuda::name_of`, ops/cuda/convolution.h).
using EngineChoices = std::map<std::string, EngineChoice>;

/// Thread safe.
class EngineTable {
 public:
  /// Of what was offered before nothing changes, so that the first to offer decides.
  void offer(const EngineChoices& choices);
  std::optional<EngineChoice> offered(const std::string& convolution) const;

  /// `lasts`: was found out now, and is for later runs too.
  void choose(const std::string& convolution, const EngineChoice& choice, bool lasts);
  /// All that this process computes with.
  EngineChoices chosen() const;
  /// Of these what is for later runs.
  EngineChoices lasting() const;

 private:
  mutable std::mutex mutex_;
  EngineChoices offered_, chosen_, lasting_;
};

/// That of a GPU, whether it is there or not.
EngineTable& engine_table(Device gpu);

}  // namespace brim
