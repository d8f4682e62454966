#include "brim/train/skip_history.h"

#include <fmt/core.h>

#include <bit>

namespace brim {
namespace {
constexpr int kWindow = 10, kDiverged = 9;  // updates
}  // namespace

void SkipHistory::note(const std::optional<Skipped>& skipped) {
  skips_ = (skips_ << 1 | (skipped ? 1 : 0)) & ((1 << kWindow) - 1);
  if (skipped) last_skip_ = skipped->text;
}

std::string SkipHistory::divergence() const {
  const int skips = std::popcount(skips_);
  if (skips < kDiverged) return "";
  return fmt::format(
      "the training diverged: {} of the last {} updates were skipped for an overflow, {}", skips,
      kWindow, last_skip_);
}

}  // namespace brim
