// The kernels of cuda_kernel.md, run by the emulator: hardswish from a plain loop to loads of 16
// bytes, and sums that do and do not depend on the order of threads.
#include <cstdio>
#include <cstring>
#include <set>
#include <vector>

#include "brim/tests/support/cuda_emulator/device_code.h"
// After what makes CUDA's source plain C++.
#include "brim/core/cuda/vector.cuh"
#include "brim/ops/activation_functors.h"
#include "brim/ops/cuda/reduce.cuh"

using namespace brim;
using namespace brim::cuda;
using functor::Hardswish;

namespace {

// [loop]
void hardswish(int64_t count, float* y, const float* x) {
  const Hardswish f;
  for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}
// [/loop]

// [grid]
__global__ void hardswish_kernel(int64_t count, float* y, const float* x) {
  const Hardswish f;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = first; i < count; i += step) y[i] = f(x[i]);
}
// [/grid]

// [launch]
void hardswish(const KernelCall& call, int64_t count, float* y, const float* x) {
  launch_kernel("hardswish", hardswish_kernel, {blocks_for(count), kThreads}, call.stream, count, y,
                x);
}
// [/launch]

// [sectors]
/// Pieces of 32 bytes that a warp reads when its lane l reads the float at `l * distance`.
int64_t sectors_of_warp(int64_t distance) {
  std::set<int64_t> sectors;
  for (int64_t lane = 0; lane < 32; ++lane)
    sectors.insert(lane * distance * static_cast<int64_t>(sizeof(float)) / 32);
  return std::ssize(sectors);
}
// [/sectors]

// [orders]
/// What `run` leaves in a float, under each order in which threads may come.
std::set<float> results_of(const std::function<void(float*)>& run) {
  using emulator::ThreadOrder;
  std::set<float> results;
  for (ThreadOrder order : {ThreadOrder::forward, ThreadOrder::backward, ThreadOrder::shuffled}) {
    emulator::set_thread_order(order);
    float result = 0;
    run(&result);
    results.insert(result);
  }
  return results;
}
// [/orders]

// [atomic]
__global__ void sum_as_they_come(int64_t count, const float* x, float* sum) {
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) atomicAdd(sum, x[i]);
}
// [/atomic]

// [sum]
struct Sum {
  using State = float;
  const float* x;
  float* y;

  __device__ float fold(int64_t, int64_t, int64_t first, int64_t units, int64_t step) const {
    float sum = 0;
    for (int64_t i = first; i < units; i += step) sum += x[i];
    return sum;
  }
  __device__ static void join(float& sum, const float& later) { sum += later; }
  __device__ void finish(int64_t, int64_t, float sum) const { *y = sum; }
};
// [/sum]

std::vector<float> numbers(int64_t count) {
  std::vector<float> x;
  for (int64_t i = 0; i < count; ++i)
    x.push_back(static_cast<float>(i * 7919 % 1000) / 97.0f - 5.0f);
  return x;
}

bool same_bits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

void check_grid() {
  const auto x = numbers(1000);
  std::vector<float> here(1000), there(1000);
  hardswish(1000, here.data(), x.data());
  hardswish({}, 1000, there.data(), x.data());
  check(same_bits(here.data(), there.data(), 1000), "the grid does what the loop does");
}

void check_sectors() {
  // [layouts]
  constexpr int64_t kHeight = 56, kWidth = 56;
  check(sectors_of_warp(1) == 4, "NHWC: 32 channels of a pixel are 128 bytes");
  check(sectors_of_warp(kHeight * kWidth) == 32, "NCHW: each channel is in an image of its own");
  // [/layouts]
}

Float16 as_half(float x) { return round_to<Float16>(x); }

void check_halves() {
  int64_t differ = 0;
  for (float x : numbers(1000)) {
    // [halves]
    const Float16 stored = as_half(x);
    const Float16 once = round_to<Float16>(Hardswish()(widen(stored)));

    auto rounded = [](float v) { return widen(as_half(v)); };  // to 11 bits, as a half's own op
    const float wide = widen(stored);
    const float clipped = rounded(functor::Relu6()(rounded(wide + 3)));
    const Float16 each_time = as_half(rounded(wide * clipped) / 6);
    // [/halves]
    differ += once.bits != each_time.bits;
  }
  check(differ > 100, "rounded at each step, many results are others");
}

void check_packs() {
  // [packs]
  const auto x = numbers(100);
  std::vector<float> expected(100), y(100);
  hardswish(100, expected.data(), x.data());
  for (int64_t begin : {0, 1, 2, 3, 4})
    for (int64_t end : {97, 98, 99, 100}) {
      map({}, end - begin, Hardswish(), "hardswish", y.data() + begin, x.data() + begin);
      check(same_bits(&y[static_cast<size_t>(begin)], &expected[static_cast<size_t>(begin)],
                      end - begin),
            "wherever it begins and ends");
    }
  // [/packs]
}

void check_sums() {
  // [sums]
  const auto x = numbers(100000);
  const auto as_they_come = results_of([&](float* sum) {
    launch_kernel("atomic", sum_as_they_come, {1, kThreads}, nullptr, std::ssize(x), x.data(), sum);
  });
  check(as_they_come.size() > 1, "another order, other bits");

  const ReducePlan plan(/*kept=*/1, /*units=*/std::ssize(x), /*columns=*/1);
  std::vector<float> partial(static_cast<size_t>(plan.pieces));
  const auto in_order = results_of([&](float* sum) {
    reduce("sum", {}, plan, Sum{x.data(), sum}, partial.data());
  });
  check(in_order.size() == 1, "one order, the same bits");
  // [/sums]
  check(plan.pieces > 1, "more than one block");
}

}  // namespace

int main() {
  check_grid();
  check_sectors();
  check_halves();
  check_packs();
  check_sums();
  std::puts("as the chapter says");
}
