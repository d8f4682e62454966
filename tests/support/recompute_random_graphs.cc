// Graphs whose shape and numbers are drawn at random (recompute_graphs.h).
#include <algorithm>
#include <utility>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/tests/support/recompute_graph_builder.h"
#include "brim/tests/support/recompute_graphs.h"

namespace brim::testing {
namespace {

using memory::RecomputeGraph;
using ForwardOp = RecomputeGraph::ForwardOp;

/// Small graphs whose numbers are drawn at random.
class RandomBuilder {
 public:
  RandomBuilder(int most, uint64_t seed)
      : random_(RandomKey{seed}), rows_(derive(RandomKey{seed}, 1)), left_(most) {}

  bool full() const { return left_ <= 0; }
  uint64_t below(uint64_t n) { return random_.below(n); }
  int32_t source() { return builder_.value({.bytes = draw(20)}); }

  /// A layer of some kind: its backward reads the inputs (convolution, normalisation), the output
  /// (activation) or nothing (a sum).
  int32_t layer(std::vector<int32_t> reads) {
    switch (random_.below(4)) {
      case 0:
        return op(std::move(reads), true, Reads::output);
      case 1:
        return op(std::move(reads), true, Reads::inputs);
      default:
        return op(std::move(reads), false, Reads::inputs);
    }
  }
  int32_t sum(std::vector<int32_t> reads) { return op(std::move(reads), true, Reads::nothing); }

  RecomputeGraph finish() { return builder_.finish(draw(30)); }

 private:
  enum class Reads { nothing, inputs, output };

  int64_t draw(uint64_t most) { return 1 + static_cast<int64_t>(random_.below(most)); }

  int32_t op(std::vector<int32_t> reads, bool cheap, Reads reads_back) {
    const int64_t bytes = draw(40);
    const int32_t y = builder_.value({.bytes = bytes,
                                      .producer = builder_.next_op(),
                                      .may_drop = left_-- > 0,
                                      .cheap = cheap,
                                      .row_group = cheap && rows_.below(4) > 0 ? 0 : -1});
    const double seconds =
        cheap ? 0.05 * static_cast<double>(bytes) : static_cast<double>(draw(40));
    Backward backward{.seconds = 2 * seconds, .scratch = draw(10) - 1};
    if (reads_back == Reads::inputs) backward.reads = reads;
    if (reads_back == Reads::output) backward.reads = {y};
    if (reads_back == Reads::output && rows_.below(2) == 0) backward.or_sources = {y};
    for (int32_t x : backward.reads)
      if (!cheap && builder_.row_group(x) >= 0 && rows_.below(4) > 0) backward.by_rows.push_back(x);
    builder_.add({.seconds = seconds,
                  .replay_seconds = seconds,
                  .row_seconds = seconds / 4,
                  .scratch = draw(10) - 1,
                  .replay_scratch = draw(10) - 1,
                  .reads = std::move(reads)},
                 std::move(backward));
    return y;
  }

  RandomStream random_, rows_;
  int left_;  // values that may be dropped
  GraphBuilder builder_;
};

RecomputeGraph random_chain(RandomBuilder& builder) {
  int32_t x = builder.source();
  while (!builder.full()) x = builder.layer({x});
  builder.layer({x});
  return builder.finish();
}

RecomputeGraph random_residual(RandomBuilder& builder) {
  int32_t x = builder.layer({builder.source()});
  while (!builder.full()) {
    int32_t y = x;
    for (uint64_t i = 0, layers = 1 + builder.below(3); i < layers; ++i) y = builder.layer({y});
    x = builder.sum({x, y});
  }
  return builder.finish();
}

RecomputeGraph random_dense(RandomBuilder& builder) {
  std::vector<int32_t> parts{builder.layer({builder.source()})};
  while (!builder.full()) {
    const int32_t all = parts.size() == 1 ? parts[0] : builder.sum(parts);
    parts.push_back(builder.layer({builder.layer({all})}));
  }
  builder.sum(parts);
  return builder.finish();
}

RecomputeGraph random_unet(RandomBuilder& builder, int most) {
  std::vector<int32_t> skips;
  int32_t x = builder.layer({builder.source()});
  for (int level = 0; level < std::max(1, most / 4); ++level) {
    skips.push_back(x);
    x = builder.layer({x});
  }
  for (; !skips.empty(); skips.pop_back()) x = builder.layer({builder.sum({skips.back(), x})});
  while (!builder.full()) x = builder.layer({x});
  return builder.finish();
}

RecomputeGraph random_inception(RandomBuilder& builder) {
  int32_t x = builder.layer({builder.source()});
  while (!builder.full()) {
    std::vector<int32_t> branches;
    for (uint64_t i = 0, count = 2 + builder.below(2); i < count; ++i) {
      branches.push_back(builder.layer({x}));
      if (builder.below(2) == 0) branches.back() = builder.layer({branches.back()});
    }
    x = builder.sum(branches);
  }
  return builder.finish();
}

/// Whatever a graph may be.
RecomputeGraph random_any(int most, uint64_t seed) {
  RandomStream random(RandomKey{seed}), rows(derive(RandomKey{seed}, 1));
  auto draw = [&](uint64_t n) { return static_cast<int64_t>(random.below(n)); };
  RecomputeGraph graph{.fixed_bytes = draw(50)};
  for (int64_t i = draw(3); i >= 0; --i) graph.values.push_back({.bytes = draw(30)});
  auto some_values = [&](int64_t at_most) {
    std::vector<int32_t> values;
    for (int64_t i = draw(static_cast<uint64_t>(at_most) + 1); i > 0; --i)
      values.push_back(static_cast<int32_t>(random.below(graph.values.size())));
    return values;
  };
  for (int left = most; left > 0;) {
    ForwardOp op{.seconds = static_cast<double>(draw(30)),
                 .replay_seconds = static_cast<double>(draw(30)),
                 .row_seconds = static_cast<double>(rows.below(30)),
                 .scratch = draw(15),
                 .replay_scratch = draw(15),
                 .reads = some_values(3)};
    if (draw(4) == 0) op.replay_reads = some_values(3);
    for (int64_t outputs = draw(3); outputs >= 0; --outputs) {
      const bool may_drop = left > 0 && draw(5) > 0;
      left -= may_drop;
      graph.values.push_back({.bytes = draw(40),
                              .producer = static_cast<int32_t>(graph.ops.size()),
                              .may_drop = may_drop,
                              .cheap = draw(2) == 0,
                              .row_group = static_cast<int32_t>(rows.below(3)) - 1});
      if (!may_drop && op.replay_reads)
        op.replay_reads->push_back(static_cast<int32_t>(graph.values.size()) - 1);
    }
    graph.ops.push_back(std::move(op));
  }
  for (int64_t steps = draw(2 * graph.ops.size()); steps >= 0; --steps) {
    graph.steps.push_back({.seconds = static_cast<double>(draw(30)),
                           .reads = some_values(3),
                           .held_before = draw(40),
                           .held = draw(60)});
    auto& step = graph.steps.back();
    for (int32_t v : step.reads)
      if (graph.values[static_cast<size_t>(v)].row_group >= 0 && rows.below(2) == 0)
        step.by_rows.push_back(v);
      else if (rows.below(3) == 0)
        step.or_sources.push_back(v);
  }
  return graph;
}

}  // namespace

const std::vector<std::string>& recompute_families() {
  static const std::vector<std::string> families{"chain", "residual",  "dense",
                                                 "unet",  "inception", "any"};
  return families;
}

RecomputeGraph random_recompute_graph(const std::string& family, int most, uint64_t seed) {
  RandomBuilder builder(most, seed);
  if (family == "chain") return random_chain(builder);
  if (family == "residual") return random_residual(builder);
  if (family == "dense") return random_dense(builder);
  if (family == "unet") return random_unet(builder, most);
  if (family == "inception") return random_inception(builder);
  if (family == "any") return random_any(most, seed);
  raise<ValueError>("random_recompute_graph", "there is no family {}", family);
}

}  // namespace brim::testing
