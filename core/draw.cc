// Filling with numbers that are functions of their place: the CPU kernels, and the functions over
// them.
#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/kernels.h"

namespace brim {
namespace {

constexpr int64_t kGrain = 4096;  // draws that repay a second thread

// Element i, in row-major order, becomes value(i), which must be pure.
template <class Value>
void generate(const View& to, const Value& value) {
  visit_dtype(to.dtype, [&]<class T>() {
    T* values = to.as<T>();
    parallel_for(to.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] = convert<T>(value(i));
    });
  });
}

void arange_kernel(const KernelCall& call, const NoAttributes&) {
  generate(call.out[0], [](int64_t i) { return i; });
}

constexpr int kLanes = 64;  // counters whose numbers are drawn side by side, in vectors

/// What `philox` gives for some counters, each of the four words by itself.
struct Words {
  uint32_t of[4][kLanes];
};

// Of counters (0, first), (0, first + 1) ...
void draw_words(RandomKey key, uint64_t first, Words& words) {
  uint32_t(&x)[4][kLanes] = words.of;
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    x[0][lane] = static_cast<uint32_t>(first + lane);
    x[1][lane] = static_cast<uint32_t>((first + lane) >> 32);
    x[2][lane] = x[3][lane] = 0;
  }
  auto k0 = static_cast<uint32_t>(key.value), k1 = static_cast<uint32_t>(key.value >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane)
      philox_round(x[0][lane], x[1][lane], x[2][lane], x[3][lane], k0, k1);
    k0 += kPhiloxStep0;
    k1 += kPhiloxStep1;
  }
}

// Of each counter come `kOfCounter` elements in a row: draw(words, a, values) has those of kLanes.
template <int kOfCounter, class A>
void generate_draws(const View& to, const A& a, void (*draw)(const Words&, const A&, double*)) {
  constexpr int64_t kBlock = kOfCounter * kLanes;
  const int64_t size = to.numel(), blocks = (size + kBlock - 1) / kBlock;
  visit_dtype(to.dtype, [&]<class T>() {
    T* elements = to.as<T>();
    parallel_for(blocks, kGrain / kBlock, [&](int64_t begin, int64_t end) {
      Words words;
      double values[kBlock];
      for (int64_t block = begin; block < end; ++block) {
        draw_words(a.key, static_cast<uint64_t>(block * kLanes), words);
        draw(words, a, values);
        const int64_t first = block * kBlock, count = std::min(kBlock, size - first);
        for (int64_t i = 0; i < count; ++i) elements[first + i] = convert<T>(values[i]);
      }
    });
  });
}

void draw_uniform(const Words& words, const kernel::UniformAttributes& a, double* values) {
  const double low = a.low, middle = (a.low + a.high) / 2, half = (a.high - a.low) / 2;
  for (int word = 0; word < 4; ++word)
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) {
      const double draw = 2.0 * to_uniform(words.of[word][lane]) - 1.0;
      // Not below the least by a rounding.
      values[4 * lane + word] = std::max(low, middle + half * draw);
    }
}

void draw_normal(const Words& words, const kernel::NormalAttributes& a, double* values) {
  const double deviation = a.deviation;
  for (int pair = 0; pair < 2; ++pair)
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane)
      values[2 * lane + pair] =
          deviation * box_muller(words.of[2 * pair][lane], words.of[2 * pair + 1][lane]);
}

void uniform_kernel(const KernelCall& call, const kernel::UniformAttributes& a) {
  generate_draws<4>(call.out[0], a, draw_uniform);
}

void normal_kernel(const KernelCall& call, const kernel::NormalAttributes& a) {
  generate_draws<2>(call.out[0], a, draw_normal);
}

void require_contiguous(const char* name, const Tensor& tensor) {
  expect<ShapeError>(tensor.is_contiguous(), name, "expected a contiguous tensor, got strides {}",
                     tensor.strides());
}

}  // namespace

void register_draw_kernels() {
  for (int i = 0; i < kDtypes; ++i) {
    auto dtype = static_cast<Dtype>(i);
    register_kernel(kernel::arange, DeviceType::cpu, dtype, arange_kernel);
    register_kernel(kernel::uniform, DeviceType::cpu, dtype, uniform_kernel);
    register_kernel(kernel::normal, DeviceType::cpu, dtype, normal_kernel);
  }
}

void fill_uniform(const Tensor& tensor, double low, double high, RandomKey key) {
  require_contiguous("fill_uniform", tensor);
  launch(kernel::uniform, {}, {tensor}, {.low = low, .high = high, .key = key});
}

void fill_normal(const Tensor& tensor, double deviation, RandomKey key) {
  require_contiguous("fill_normal", tensor);
  launch(kernel::normal, {}, {tensor}, {.deviation = deviation, .key = key});
}

}  // namespace brim
