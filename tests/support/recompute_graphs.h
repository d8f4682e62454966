// Training steps as graphs for recomputation: some shaped like known networks, with bytes and
// roofline seconds from their layers' shapes, and small random ones whose best plan can be found by
// trying everything. Shapes are the known ones to a few percent; nothing here is a model to train.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim::testing {

/// What ops take: the larger of arithmetic and memory traffic, float32.
struct Roofline {
  double flops_per_second = 500e9;
  double bytes_per_second = 73e9;
};

/// "resnet50", "resnet152", "mobilenet_v2", "densenet121", "unet" (images of 224 and, for unet,
/// 256 pixels), "chain10000" (as many ops). Fixed bytes are parameters, gradients and momentum.
memory::RecomputeGraph network_graph(const std::string& name, int64_t batch,
                                     const Roofline& roofline = {});

/// The families of `random_recompute_graph`.
const std::vector<std::string>& recompute_families();

/// Of "chain", "residual", "dense", "unet", "inception" and "any" (reads, outputs, what may be
/// dropped, replays that read other values: all at random), with up to `most` values that may be
/// dropped.
memory::RecomputeGraph random_recompute_graph(const std::string& family, int most, uint64_t seed);

}  // namespace brim::testing
