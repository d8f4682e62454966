// The parts that a training run is made of, as the account and its planner are told of them. A
// micro-step is the forward and backward of one part of an update; those with as many samples ask
// for the same bytes in the same order, which is what a plan replays. `TrainStep` and `evaluate`
// announce theirs (account.h, `SectionScope`).
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace brim::memory {

enum class SectionKind : uint8_t {
  first_micro_step,  ///< of an update: gradients appear in it
  micro_step,        ///< a later one: it adds to them
  update,
  evaluation,
  other,
};

struct Section {
  SectionKind kind = SectionKind::other;
  int64_t samples = 0;  ///< 0 where unknown, and of an update
  friend auto operator<=>(const Section&, const Section&) = default;
};

/// "first micro-step of 64".
std::string to_string(const Section& section);

}  // namespace brim::memory
