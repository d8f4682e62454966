#include "brim/tests/support/recompute_graphs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "brim/base/error.h"
#include "brim/base/random.h"

namespace brim::testing {
namespace {

using memory::RecomputeGraph;
using Value = RecomputeGraph::Value;
using ForwardOp = RecomputeGraph::ForwardOp;

/// What the backward step of an op reads and takes.
struct Backward {
  std::vector<int32_t> reads;
  double seconds = 0;
  int64_t scratch = 0;
};

/// Collects forward ops; the backward steps follow in reverse, with the gradients that live then: a
/// value's from the step of its last reader to that of its producer.
class GraphBuilder {
 public:
  int32_t value(const Value& value) {
    graph_.values.push_back(value);
    return static_cast<int32_t>(graph_.values.size()) - 1;
  }
  /// The number that the next op will have.
  int32_t next_op() const { return static_cast<int32_t>(graph_.ops.size()); }
  void set(int32_t v, const Value& value) { graph_.values[static_cast<size_t>(v)] = value; }
  void add(ForwardOp op, Backward backward) {
    graph_.ops.push_back(std::move(op));
    backwards_.push_back(std::move(backward));
  }
  int64_t bytes(int32_t v) const { return graph_.values[static_cast<size_t>(v)].bytes; }

  RecomputeGraph finish(int64_t fixed_bytes) {
    graph_.fixed_bytes = fixed_bytes;
    const auto ops = static_cast<int32_t>(graph_.ops.size());
    for (int32_t op = ops; op-- > 0;) {
      Backward& backward = backwards_[static_cast<size_t>(op)];
      graph_.steps.push_back({.seconds = backward.seconds, .reads = backward.reads});
      graph_.steps.back().held = backward.scratch;
    }
    std::vector<int32_t> last_reader(graph_.values.size(), -1);
    for (int32_t op = 0; op < ops; ++op)
      for (int32_t v : graph_.ops[static_cast<size_t>(op)].reads)
        last_reader[static_cast<size_t>(v)] = op;
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].producer >= 0 && last_reader[v] >= 0)
        add_gradient(graph_.values[v].bytes, ops - 1 - last_reader[v],
                     ops - 1 - graph_.values[v].producer);
    return std::move(graph_);
  }

 private:
  void add_gradient(int64_t bytes, int32_t born, int32_t last) {
    for (int32_t step = born; step <= last; ++step) {
      auto& of_step = graph_.steps[static_cast<size_t>(step)];
      of_step.held += bytes;
      if (step > born) of_step.held_before += bytes;
    }
  }

  RecomputeGraph graph_;
  std::vector<Backward> backwards_;
};

/// An image in the network.
struct Feature {
  int32_t value = 0;
  int64_t channels = 0, size = 0;
};

/// Layers, as deep networks have them.
class NetworkBuilder {
 public:
  NetworkBuilder(int64_t batch, const Roofline& roofline) : batch_(batch), roofline_(roofline) {}

  Feature input(int64_t size) {
    return {builder_.value({.bytes = 4 * batch_ * 3 * size * size}), 3, size};
  }
  Feature conv(Feature x, int64_t channels, int64_t kernel, int64_t stride = 1,
               int64_t groups = 1) {
    const int64_t size = x.size / stride,
                  weights = x.channels / groups * channels * kernel * kernel;
    parameters_ += weights;
    const double flops = 2.0 * static_cast<double>(batch_ * size * size * weights);
    const int64_t y = bytes_of(channels, size);
    const double seconds = time(flops, builder_.bytes(x.value) + y);
    return {op({x.value}, y, seconds, seconds, false, {{x.value}, 2 * seconds, 0}), channels, size};
  }
  /// Replayed from its statistics.
  Feature batch_norm(Feature x) {
    const int64_t bytes = builder_.bytes(x.value);
    const int32_t statistics =
        builder_.value({.bytes = 8 * x.channels, .producer = builder_.next_op()});
    parameters_ += 2 * x.channels;
    return {op({x.value}, bytes, time(0, 3 * bytes), time(0, 2 * bytes), true,
               {{x.value, statistics}, time(0, 5 * bytes), 0}, std::vector{x.value, statistics}),
            x.channels, x.size};
  }
  Feature relu(Feature x) {
    const int64_t bytes = builder_.bytes(x.value);
    const int32_t y = op({x.value}, bytes, time(0, 2 * bytes), time(0, 2 * bytes), true,
                         {{builder_value_after()}, time(0, 3 * bytes), 0});
    return {y, x.channels, x.size};
  }
  Feature conv_norm_relu(Feature x, int64_t channels, int64_t kernel, int64_t stride = 1,
                         int64_t groups = 1) {
    return relu(batch_norm(conv(x, channels, kernel, stride, groups)));
  }
  Feature add(Feature a, Feature b) {
    const int64_t bytes = builder_.bytes(a.value);
    return {op({a.value, b.value}, bytes, time(0, 3 * bytes), time(0, 3 * bytes), true,
               {{}, time(0, 2 * bytes), 0}),
            a.channels, a.size};
  }
  Feature concat(const std::vector<Feature>& parts) {
    Feature y{0, 0, parts[0].size};
    std::vector<int32_t> reads;
    for (const Feature& part : parts) {
      y.channels += part.channels;
      reads.push_back(part.value);
    }
    const int64_t bytes = bytes_of(y.channels, y.size);
    const double seconds = time(0, 2 * bytes);
    y.value = op(reads, bytes, seconds, seconds, true, {{}, seconds, 0});
    return y;
  }
  /// Backward needs a byte for each output: where the largest was.
  Feature max_pool(Feature x, int64_t stride) {
    const int64_t size = x.size / stride, bytes = bytes_of(x.channels, size);
    const int32_t places =
        builder_.value({.bytes = bytes / 4, .producer = builder_.next_op(), .may_drop = true});
    const double seconds = time(0, builder_.bytes(x.value) + bytes);
    return {op({x.value}, bytes, seconds, seconds, false, {{places}, seconds, 0}), x.channels,
            size};
  }
  /// Pooling by averages, or the nearest pixel: backward reads nothing.
  Feature resize(Feature x, int64_t size) {
    const int64_t bytes = bytes_of(x.channels, size);
    const double seconds = time(0, builder_.bytes(x.value) + bytes);
    return {op({x.value}, bytes, seconds, seconds, true, {{}, seconds, 0}), x.channels, size};
  }
  RecomputeGraph finish(Feature x) {
    const int64_t bytes = builder_.bytes(x.value);
    op({x.value}, bytes, time(0, 2 * bytes), time(0, 2 * bytes), true,
       {{builder_value_after()}, time(0, 2 * bytes), 0});
    return builder_.finish(3 * 4 * parameters_);
  }

 private:
  int64_t bytes_of(int64_t channels, int64_t size) const {
    return 4 * batch_ * channels * size * size;
  }
  double time(double flops, int64_t bytes) const {
    return std::max(flops / roofline_.flops_per_second,
                    static_cast<double>(bytes) / roofline_.bytes_per_second);
  }
  /// The number of the value that `op` will make.
  int32_t builder_value_after() {
    next_value_ = builder_.value({});
    return *next_value_;
  }
  int32_t op(std::vector<int32_t> reads, int64_t bytes, double seconds, double replay_seconds,
             bool cheap, Backward backward, std::optional<std::vector<int32_t>> replay_reads = {}) {
    const Value made{bytes, builder_.next_op(), true, cheap};
    const int32_t y = next_value_ ? *std::exchange(next_value_, std::nullopt) : builder_.value({});
    builder_.set(y, made);
    builder_.add({.seconds = seconds,
                  .replay_seconds = replay_seconds,
                  .reads = std::move(reads),
                  .replay_reads = std::move(replay_reads)},
                 std::move(backward));
    return y;
  }

  int64_t batch_;
  Roofline roofline_;
  GraphBuilder builder_;
  std::optional<int32_t> next_value_;
  int64_t parameters_ = 0;
};

RecomputeGraph resnet(const std::vector<int>& blocks, int64_t batch, const Roofline& roofline) {
  NetworkBuilder net(batch, roofline);
  Feature x = net.max_pool(net.conv_norm_relu(net.input(224), 64, 7, 2), 2);
  for (size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block) {
      const int64_t width = int64_t{64} << stage, stride = stage > 0 && block == 0 ? 2 : 1;
      Feature skip = block == 0 ? net.batch_norm(net.conv(x, 4 * width, 1, stride)) : x;
      Feature y = net.conv_norm_relu(x, width, 1);
      y = net.batch_norm(net.conv(net.conv_norm_relu(y, width, 3, stride), 4 * width, 1));
      x = net.relu(net.add(y, skip));
    }
  return net.finish(net.conv(net.resize(x, 1), 1000, 1));
}

RecomputeGraph mobilenet_v2(int64_t batch, const Roofline& roofline) {
  struct Stage {
    int64_t expansion, channels, blocks, stride;
  };
  NetworkBuilder net(batch, roofline);
  Feature x = net.conv_norm_relu(net.input(224), 32, 3, 2);
  for (const Stage& s :
       {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
        Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}})
    for (int64_t block = 0; block < s.blocks; ++block) {
      const int64_t wide = x.channels * s.expansion;
      Feature y = s.expansion == 1 ? x : net.conv_norm_relu(x, wide, 1);
      y = net.conv_norm_relu(y, wide, 3, block == 0 ? s.stride : 1, wide);
      y = net.batch_norm(net.conv(y, s.channels, 1));
      x = block == 0 ? y : net.add(y, x);
    }
  x = net.resize(net.conv_norm_relu(x, 1280, 1), 1);
  return net.finish(net.conv(x, 1000, 1));
}

RecomputeGraph densenet121(int64_t batch, const Roofline& roofline) {
  constexpr int64_t kGrowth = 32;
  NetworkBuilder net(batch, roofline);
  Feature x = net.max_pool(net.conv_norm_relu(net.input(224), 64, 7, 2), 2);
  for (int layers : {6, 12, 24, 16}) {
    std::vector<Feature> parts{x};
    for (int layer = 0; layer < layers; ++layer) {
      Feature y = parts.size() == 1 ? parts[0] : net.concat(parts);
      y = net.conv(net.relu(net.batch_norm(y)), 4 * kGrowth, 1);
      parts.push_back(net.conv(net.relu(net.batch_norm(y)), kGrowth, 3));
    }
    x = net.relu(net.batch_norm(net.concat(parts)));
    if (layers != 16) x = net.resize(net.conv(x, x.channels / 2, 1), x.size / 2);
  }
  return net.finish(net.conv(net.resize(x, 1), 1000, 1));
}

RecomputeGraph unet(int64_t batch, const Roofline& roofline) {
  NetworkBuilder net(batch, roofline);
  Feature x = net.input(256);
  auto twice = [&](Feature y, int64_t channels) {
    return net.conv_norm_relu(net.conv_norm_relu(y, channels, 3), channels, 3);
  };
  std::vector<Feature> skips;
  for (int64_t channels : {64, 128, 256, 512}) {
    skips.push_back(twice(x, channels));
    x = net.max_pool(skips.back(), 2);
  }
  x = twice(x, 1024);
  for (; !skips.empty(); skips.pop_back()) {
    const Feature& skip = skips.back();
    Feature up = net.conv(net.resize(x, skip.size), skip.channels, 2);
    x = twice(net.concat({skip, up}), skip.channels);
  }
  return net.finish(net.conv(x, 2, 1));
}

RecomputeGraph long_chain(int64_t ops, int64_t batch, const Roofline& roofline) {
  NetworkBuilder net(batch, roofline);
  Feature x = net.conv(net.input(32), 64, 3);
  for (int64_t i = 0; i < (ops - 2) / 3; ++i) x = net.conv_norm_relu(x, 64, 3);
  return net.finish(x);
}

/// Small graphs whose numbers are drawn at random.
class RandomBuilder {
 public:
  RandomBuilder(int most, uint64_t seed) : random_(RandomKey{seed}), left_(most) {}

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
    const int32_t y = builder_.value({bytes, builder_.next_op(), left_-- > 0, cheap});
    const double seconds =
        cheap ? 0.05 * static_cast<double>(bytes) : static_cast<double>(draw(40));
    Backward backward{.seconds = 2 * seconds, .scratch = draw(10) - 1};
    if (reads_back == Reads::inputs) backward.reads = reads;
    if (reads_back == Reads::output) backward.reads = {y};
    builder_.add({.seconds = seconds,
                  .replay_seconds = seconds,
                  .scratch = draw(10) - 1,
                  .replay_scratch = draw(10) - 1,
                  .reads = std::move(reads)},
                 std::move(backward));
    return y;
  }

  RandomStream random_;
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
  RandomStream random(RandomKey{seed});
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
                              .cheap = draw(2) == 0});
      if (!may_drop && op.replay_reads)
        op.replay_reads->push_back(static_cast<int32_t>(graph.values.size()) - 1);
    }
    graph.ops.push_back(std::move(op));
  }
  for (int64_t steps = draw(2 * graph.ops.size()); steps >= 0; --steps)
    graph.steps.push_back({.seconds = static_cast<double>(draw(30)),
                           .reads = some_values(3),
                           .held_before = draw(40),
                           .held = draw(60)});
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

RecomputeGraph network_graph(const std::string& name, int64_t batch, const Roofline& roofline) {
  if (name == "resnet50") return resnet({3, 4, 6, 3}, batch, roofline);
  if (name == "resnet152") return resnet({3, 8, 36, 3}, batch, roofline);
  if (name == "mobilenet_v2") return mobilenet_v2(batch, roofline);
  if (name == "densenet121") return densenet121(batch, roofline);
  if (name == "unet") return unet(batch, roofline);
  if (name == "chain10000") return long_chain(10'000, batch, roofline);
  raise<ValueError>("network_graph", "there is no network {}", name);
}

}  // namespace brim::testing
