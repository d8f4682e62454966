// Requests that a plan did not serve: how many, and what the first of them were. Kept by the arena
// planner, for `Account::mismatch_report`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/plan/expected.h"
#include "brim/memory/planner.h"

namespace brim::memory {

class Mismatches {
 public:
  Mismatches() { first_.reserve(kReported); }

  /// `holder` has the buffer that was in the request's place; null where it has none in the plan.
  /// Does not allocate.
  void add(const Request& request, const ArenaBlock* holder);
  int64_t count() const { return count_; }
  /// For people; "" for none.
  std::string report() const;

 private:
  static constexpr size_t kReported = 8;

  struct Mismatch {
    Site site;
    int64_t bytes = 0;
    Site holder;
    int64_t held = 0;  // bytes of that; 0 for none
  };

  int64_t count_ = 0;
  std::vector<Mismatch> first_;
};

}  // namespace brim::memory
