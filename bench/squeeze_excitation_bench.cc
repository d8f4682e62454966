// Squeeze-and-excitation on the shapes of MobileNet V3: milliseconds of the op with its backward,
// and the plain composition of `global_avg_pool`, `conv2d`, `relu`, `hardsigmoid` and `mul` as a
// ratio of its time to ours. The two take turns.
//
//   squeeze_excitation_bench [batch] [runs] [threads]
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/bench/timing.h"
#include "brim/memory/account.h"
#include "brim/ops/ops.h"

namespace brim {
namespace {

struct Layer {
  int64_t size, channels, squeezed;
};
constexpr Layer kLayers[] = {{56, 16, 8},    {28, 72, 24},   {28, 120, 32}, {14, 240, 64},
                             {14, 480, 120}, {14, 672, 168}, {7, 672, 168}, {7, 960, 240}};

struct Operands {
  Operands(const Layer& layer, int64_t batch) {
    const Shape shape{batch, layer.size, layer.size, layer.channels};
    leaves = {uniform(shape, -1, 2, {1}),
              uniform({layer.squeezed, 1, 1, layer.channels}, -1, 1, {2}),
              uniform({layer.squeezed}, -1, 1, {3}),
              uniform({layer.channels, 1, 1, layer.squeezed}, -1, 1, {4}),
              uniform({layer.channels}, -1, 1, {5})};
    for (Tensor& leaf : leaves) leaf.set_requires_grad();
    dy = uniform(shape, -1, 1, {6});
  }
  Tensors leaves;
  Tensor dy;
};

Tensor fused(const Tensors& in) { return squeeze_excitation(in[0], in[1], in[2], in[3], in[4]); }

Tensor plain(const Tensors& in) {
  Tensor gate = reshape(global_avg_pool(in[0]), {in[0].size(0), 1, 1, in[0].size(3)});
  gate = hardsigmoid(conv2d(relu(conv2d(std::move(gate), in[1], in[2])), in[3], in[4]));
  return mul(in[0], std::move(gate));
}

struct Times {
  std::vector<double> forward, backward;
};

void time_once(Tensor (*op)(const Tensors&), const Operands& operands, Times& times) {
  Tensor dy = clone(operands.dy), y;
  times.forward.push_back(bench::seconds_of([&] { y = op(operands.leaves); }));
  times.backward.push_back(bench::seconds_of([&] { backward(y, {.grad = std::move(dy)}); }));
  for (const Tensor& leaf : operands.leaves) leaf.set_grad({});
}

void compare(const Layer& layer, int64_t batch, int runs) {
  const Operands operands(layer, batch);
  Times ours, peer;
  for (int run = -2; run < runs; ++run) {
    if (run == 0) ours = peer = {};
    time_once(fused, operands, ours);
    time_once(plain, operands, peer);
  }
  const double forward = bench::median(ours.forward), backward = bench::median(ours.backward);
  fmt::print("{:>4}@{:<4} {:8.3f} {:8.2f} {:8.3f} {:8.2f}\n", layer.channels, layer.size,
             forward * 1e3, bench::median(peer.forward) / forward, backward * 1e3,
             bench::median(peer.backward) / backward);
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  auto argument = [&](int i, int otherwise) {
    return argc > i ? std::max(1, std::atoi(argv[i])) : otherwise;
  };
  if (argc > 3) brim::set_num_threads(argument(3, 1));
  // Bytes come from a cache, as in a training.
  auto account = std::make_shared<brim::memory::Account>(
      brim::Device::cpu(), std::make_unique<brim::memory::HostSource>(),
      brim::memory::planner_named("caching"));
  brim::memory::AccountScope scope(account);
  fmt::print("{:9} {:>8} {:>8} {:>8} {:>8}\n", "layer", "fwd ms", "plain x", "bwd ms", "plain x");
  for (const brim::Layer& layer : brim::kLayers)
    brim::compare(layer, argument(1, 32), argument(2, 15));
}
