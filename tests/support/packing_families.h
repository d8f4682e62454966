// Packing problems of many kinds and any size, for tests and benchmarks of the packer. The same
// (buffers, seed) gives the same problem everywhere. Real ones come from traces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "brim/memory/plan/lifetime.h"

namespace brim::testing {

struct PackingProblem {
  std::vector<memory::Lifetime> lifetimes;
  /// The height of the lowest packing, where it is known; else 0.
  int64_t optimum = 0;
};

/// Begins at random, lives from one tick to all of them and has 64 bytes to 1 MiB, on a log scale.
PackingProblem random_intervals(int64_t buffers, uint64_t seed);
/// Forward and backward of a chain of layers with skips: parameters, saved activations,
/// temporaries, gradients of both, moments.
PackingProblem training_step(int64_t buffers, uint64_t seed);
/// Outputs of ops that live until their last reader: short, some long.
PackingProblem inference(int64_t buffers, uint64_t seed);
/// A full rectangle cut at random, through and as pinwheels of five: what a heap with no hole in it
/// would record. Its optimum is its height, which is also the lower bound.
PackingProblem cut_rectangle(int64_t buffers, uint64_t seed);

struct PackingFamily {
  std::string name;
  std::function<PackingProblem(int64_t buffers, uint64_t seed)> make;
};
const std::vector<PackingFamily>& packing_families();

}  // namespace brim::testing
