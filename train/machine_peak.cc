#include "brim/train/machine_peak.h"

#include <algorithm>
#include <chrono>

#include "brim/autograd/op.h"
#include "brim/memory/account.h"
#include "brim/ops/add.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/matmul.h"
#include "brim/ops/relu.h"
#include "brim/ops/sum.h"
#include "brim/train/profile.h"

namespace brim {
namespace {

constexpr int64_t kMostBytes = int64_t{128} << 20;

/// Of the fastest run: what else the machine does only slows it.
template <class Run>
double fastest_seconds(const Run& run) {
  using Clock = std::chrono::steady_clock;
  constexpr double kEnough = 0.15;
  constexpr int kLeastRuns = 5;
  double fastest = 0, all = 0;
  for (int i = -1; i < kLeastRuns || all < kEnough; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    if (i < 0) continue;  // first touch, code that a library compiles
    all += took;
    fastest = i == 0 ? took : std::min(fastest, took);
  }
  return fastest;
}

Tensor drawn(const Shape& shape, Dtype dtype) {
  return uniform(shape, -1, 1, RandomKey{1}, {.dtype = dtype});
}

double product_rate(Dtype dtype) {
  constexpr int64_t kSide = 1024;
  const Tensor a = drawn({kSide, kSide}, dtype), b = drawn({kSide, kSide}, dtype);
  return 2.0 * kSide * kSide * kSide / fastest_seconds([&] { matmul(a, b); });
}

/// Of a window for which there is no way with fewer multiplications, as there is for 3x3
/// (ops/cpu/winograd.h).
double convolution_rate(Dtype dtype) {
  constexpr int64_t kImages = 4, kSide = 14, kChannels = 256, kWindow = 5;
  const Tensor x = drawn({kImages, kSide, kSide, kChannels}, dtype),
               weight = drawn({kChannels, kWindow, kWindow, kChannels}, dtype);
  const double flops = 2.0 * kImages * kSide * kSide * kChannels * kChannels * kWindow * kWindow;
  return flops / fastest_seconds([&] { conv2d(x, weight, {}, {.padding = kWindow / 2}); });
}

double arithmetic_of(Dtype dtype) { return std::max(product_rate(dtype), convolution_rate(dtype)); }

double traffic() {
  constexpr int64_t kElements = int64_t{10} << 20;  // 40 MiB each
  constexpr double kBytes = sizeof(float) * kElements;
  const Tensor a = drawn({kElements}, Dtype::float32), b = drawn({kElements}, Dtype::float32);
  // In turns: one alone stays in part in a large cache.
  const auto read_both = [&] {
    sum(a);
    sum(b);
  };
  return std::max({2 * kBytes / fastest_seconds(read_both),
                   2 * kBytes / fastest_seconds([&] { relu(a); }),
                   3 * kBytes / fastest_seconds([&] { add(a, b); })});
}

}  // namespace

MachinePeak measured_peak() {
  auto account = std::make_shared<memory::Account>(Device::cpu(),
                                                   std::make_unique<memory::HostSource>(kMostBytes),
                                                   memory::planner_named("caching"));
  const memory::AccountScope scope(account);
  const autograd::NoGradScope records_nothing;
  const double wide = arithmetic_of(Dtype::float32);
  return {.flops_per_second = wide,
          .half_flops_per_second = std::max(wide, arithmetic_of(Dtype::bfloat16)),
          .bytes_per_second = traffic()};
}

double least_seconds(const LaunchCost& cost, const MachinePeak& peak) {
  const double arithmetic = (cost.flops - cost.half_flops) / peak.flops_per_second +
                            cost.half_flops / peak.half_flops_per_second;
  const auto bytes = static_cast<double>(cost.bytes_moved - cost.bytes_widened);
  return std::max(arithmetic, bytes / peak.bytes_per_second);
}

}  // namespace brim
