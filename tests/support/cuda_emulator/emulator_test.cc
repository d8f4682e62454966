// The emulator runs kernels as a GPU would, and sees what a GPU would let pass: here are kernels
// with bugs, each of which it catches.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "brim/base/error.h"
#include "brim/tests/support/cuda_emulator/device_code.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

using namespace brim::cuda;
using emulator::ThreadOrder;

namespace {

constexpr unsigned kThreads = 64;
constexpr ThreadOrder kOrders[] = {ThreadOrder::forward, ThreadOrder::backward,
                                   ThreadOrder::shuffled};

using Numbers = std::vector<float>;

Numbers counted(size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  return numbers;
}

/// What `kernel` makes under each order of threads.
std::set<Numbers> results(size_t size, unsigned blocks, size_t shared_bytes,
                          const std::function<void(float*)>& kernel) {
  std::set<Numbers> different;
  for (ThreadOrder order : kOrders) {
    emulator::set_thread_order(order);
    Numbers out(size);
    emulator::run("test", blocks, kThreads, shared_bytes, [&] { kernel(out.data()); });
    for (float& x : out)
      if (std::isnan(x)) x = -1;  // which would equal nothing
    different.insert(out);
  }
  emulator::set_thread_order(ThreadOrder::forward);
  return different;
}

/// The sum of each block's numbers, as a tree; without one of its barriers, where that is said.
__global__ void sum_block(const float* x, float* sums, bool forgets_barrier) {
  auto* shared = static_cast<float*>(emulator::shared_memory());
  shared[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (!forgets_barrier || half != kThreads / 2) __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = shared[0];
}

/// The sum of each warp's numbers.
__global__ void sum_warp(const float* x, float* sums, unsigned mask) {
  float sum = x[threadIdx.x];
  for (int bit = 16; bit > 0; bit /= 2) sum += __shfl_xor_sync(mask, sum, bit);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
}

void run_warps(unsigned mask, float* sums) {
  const Numbers x = counted(kThreads);
  emulator::run("sum_warp", 1, kThreads, 0, [&] { sum_warp(x.data(), sums, mask); });
}

}  // namespace

TEST_CASE("emulator: every thread of every block runs once, at its place") {
  std::vector<int> seen(2 * 3 * 4 * 5);
  emulator::run("count", {2, 3}, {4, 5}, 0, [&] {
    CHECK(gridDim.y == 3);
    CHECK(blockDim.y == 5);
    ++seen[((blockIdx.x * 3 + blockIdx.y) * 4 + threadIdx.x) * 5 + threadIdx.y];
  });
  CHECK(seen == std::vector<int>(seen.size(), 1));
}

TEST_CASE(
    "emulator: a sum in shared memory is one sum in every order; without a barrier it is not") {
  const Numbers x = counted(3 * kThreads);
  const auto sums = [&](bool forgets_barrier) {
    return results(3, 3, kThreads * sizeof(float),
                   [&](float* out) { sum_block(x.data(), out, forgets_barrier); });
  };
  CHECK(sums(false) == std::set<Numbers>{{2080, 6176, 10272}});
  CHECK(sums(true).size() > 1);
}

TEST_CASE("emulator: shuffles and votes are of the lanes in the mask; who is missing is named") {
  Numbers sums(2);
  run_warps(0xffffffff, sums.data());
  CHECK(sums == Numbers{528, 1552});
  CHECK_THROWS_WITH_AS(run_warps(0x0000ffff, sums.data()),
                       "cuda: a thread is not in the mask of its own warp operation",
                       brim::DeviceError);
  CHECK_THROWS_WITH_AS(
      emulator::run("half", 1, 32, 0,
                    [] {
                      if (threadIdx.x < 16) __shfl_xor_sync(0x0000ffff, 1.0f, 16);
                    }),
      "cuda: half: thread (0,0,0) of block (0,0,0) shuffles with a lane that is not in its mask",
      brim::DeviceError);
  CHECK_THROWS_WITH_AS(
      emulator::run("early", 1, 32, 0,
                    [] {
                      if (threadIdx.x != 7) __ballot_sync(0xffffffff, 1);
                    }),
      "cuda: early: thread (0,0,0) of block (0,0,0) waits for lanes of its mask that do not come",
      brim::DeviceError);
  emulator::run("votes", 1, 48, 0, [] {
    const unsigned mask = threadIdx.x < 32 ? 0xffffffff : 0x0000ffff;  // the last warp is a half
    CHECK(__ballot_sync(mask, threadIdx.x % 32 < 3) == 7);
    CHECK(__any_sync(mask, threadIdx.x % 32 == 9));
    CHECK(!__all_sync(mask, threadIdx.x % 32 == 9));
    const auto lane = static_cast<int>(threadIdx.x % 32);
    CHECK(__shfl_sync(mask, lane, 5) == 5);
    // Of the half, the lanes behind it are in no mask.
    if (threadIdx.x < 32)
      CHECK(__shfl_down_sync(mask, lane, 4) == (lane + 4 > 31 ? lane : lane + 4));
    CHECK(__shfl_up_sync(mask, lane, 2) == (lane < 2 ? lane : lane - 2));
  });
}

TEST_CASE("emulator: a barrier that some threads never reach is an error") {
  CHECK_THROWS_WITH_AS(
      emulator::run("leaves", 1, kThreads, 0,
                    [] {
                      if (threadIdx.x < 60) __syncthreads();
                    }),
      "cuda: leaves: thread (0,0,0) of block (0,0,0) waits at a barrier that others never reach",
      brim::DeviceError);
  int after = 0;  // and the next kernel runs
  emulator::run("next", 1, kThreads, 0, [&] {
    __syncthreads();
    ++after;
  });
  CHECK(after == kThreads);
}

TEST_CASE("emulator: an off-by-one at the tail is caught, and memory begins as NaN") {
  float* numbers = nullptr;
  const unsigned count = kThreads - 5;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&numbers), count * sizeof(float)) == cudaSuccess);
  CHECK(std::isnan(numbers[count - 1]));
  const auto fill = [&](unsigned end) {
    emulator::run("fill", 1, kThreads, 0, [&] {
      if (threadIdx.x < end) numbers[threadIdx.x] = 1;
    });
  };
  fill(count);
#ifdef __SANITIZE_ADDRESS__
  CHECK(__asan_address_is_poisoned(numbers + count));  // a write would end the program
  CHECK(!__asan_address_is_poisoned(numbers + count - 1));
  emulator::run("shared", 1, kThreads, 4 * sizeof(float), [] {
    auto* shared = static_cast<float*>(emulator::shared_memory());
    CHECK(__asan_address_is_poisoned(shared + 4));
    CHECK(!__asan_address_is_poisoned(shared + 3));
  });
#else
  CHECK_THROWS_WITH_AS(fill(count + 1),
                       "cuda: fill writes beyond the end of an allocation of 236 bytes",
                       brim::DeviceError);
#endif
  CHECK(cudaFree(numbers) == cudaSuccess);
  CHECK(cudaFree(numbers) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("emulator: what no GPU takes is refused") {
  CHECK_THROWS_AS(emulator::run("wide", 1, 1025, 0, [] {}), brim::DeviceError);
  CHECK_THROWS_AS(emulator::run("none", 1, 0, 0, [] {}), brim::DeviceError);
  CHECK_THROWS_AS(emulator::run("empty", 0, 32, 0, [] {}), brim::DeviceError);
  CHECK_THROWS_AS(emulator::run("tall", {1, 65536}, 32, 0, [] {}), brim::DeviceError);
  CHECK_NOTHROW(emulator::run("shared", 1, 32, 48 * 1024, [] {}));
  CHECK_THROWS_AS(emulator::run("shared", 1, 32, 48 * 1024 + 1, [] {}), brim::DeviceError);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, size_t{1} << 40) == cudaErrorMemoryAllocation);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  cudaGetLastError();
}

TEST_CASE("emulator: what a kernel throws ends it, and reaches the caller") {
  CHECK_THROWS_AS(emulator::run("throws", 1, 32, 0,
                                [] {
                                  if (threadIdx.x == 3) throw brim::ValueError("test", "no");
                                }),
                  brim::ValueError);
}
