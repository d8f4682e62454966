// Addresses of random numbers. A random op's numbers are a pure function of (seed, update, module
// path, ordinal of the call at that path, global sample index, element): masks are the same when
// an op runs again, in another micro-batching, or on another number of devices, and there is no
// generator state to save.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "brim/base/random.h"

namespace brim::autograd {

/// What an op gets to draw from: element e of sample i of its input is
/// `random_bits(key, first_sample + i, e)`.
struct RandomAddress {
  RandomKey key;
  uint64_t first_sample = 0;
  LiveKey live = {};  ///< in place of `key` where the update is recorded
};

/// Sets seed and update number, and starts the ordinals afresh, until the scope ends. One per
/// micro-step; `first_sample` is the position of its first image in the whole update. `live`: where
/// kernels that are recorded find the number of the update in which they run; null for others.
class RandomScope {
 public:
  RandomScope(uint64_t seed, uint64_t update, uint64_t first_sample = 0,
              const double* live = nullptr);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  RandomAddress next(const std::string& path, std::string_view op);
  /// Takes the last `next` of that path and op back.
  void give_back(const std::string& path, std::string_view op) noexcept;

 private:
  RandomScope* before_;
  uint64_t seed_, update_, first_sample_;
  const double* live_;
  std::unordered_map<std::string, uint64_t> ordinals_;
};

/// The address of the next random op of this thread. Outside every scope, calls are numbered on
/// from the last `manual_seed`.
RandomAddress next_random_address(std::string_view op);
/// Takes the last one of that op back: the call failed.
void give_back_random_address(std::string_view op) noexcept;

/// Seed of random ops outside every scope on this thread; starts their numbering afresh.
void manual_seed(uint64_t seed);

}  // namespace brim::autograd
