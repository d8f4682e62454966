// Which of a training's last updates were skipped for an overflow, to tell one that diverged from
// one whose loss scale is settling: usual are a few skips at the begin, and one in thousands. The
// loss scaler itself is in optim/loss_scaler.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "brim/train/step_outcome.h"

namespace brim {

class SkipHistory {
 public:
  /// `skipped`: what one update was skipped for; nothing where it was applied.
  void note(const std::optional<Skipped>& skipped);

  /// "the training diverged: ..., first seen in ..." where 9 of the last 10 updates were skipped;
  /// else "".
  std::string divergence() const;

 private:
  uint32_t skips_ = 0;     // a bit for each of the last updates, the newest lowest
  std::string last_skip_;  // where the last of them overflowed
};

}  // namespace brim
