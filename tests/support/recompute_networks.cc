// Graphs shaped like known networks (recompute_graphs.h).
#include <algorithm>
#include <optional>
#include <utility>

#include "brim/base/error.h"
#include "brim/tests/support/recompute_graph_builder.h"
#include "brim/tests/support/recompute_graphs.h"

namespace brim::testing {
namespace {

using memory::RecomputeGraph;
using Value = RecomputeGraph::Value;

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

}  // namespace

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
