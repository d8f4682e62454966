#include "brim/train/exponents.h"

#include <omp.h>

#include <bit>
#include <numeric>
#include <vector>

#include "brim/core/strided_loop.h"

namespace brim {
namespace {

constexpr int kWords = 256;  // values of the exponent's bits in a float: 0 subnormal, 255 infinite

/// Of one thread; in several lanes, so that equal neighbours need not wait for each other.
struct Counts {
  static constexpr int kLanes = 4;
  std::array<std::array<int64_t, kWords>, kLanes> lanes{};
  int64_t zeros = 0;

  void add(float value, int lane) {
    const uint32_t word = std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu;
    zeros += word == 0;
    ++lanes[static_cast<size_t>(lane)][word >> 23];
  }
  int64_t at(size_t word) const {
    int64_t sum = 0;
    for (const auto& lane : lanes) sum += lane[word];
    return sum;
  }
};

template <class T>
void tally(const T* values, int64_t n, int64_t step, Counts& counts) {
  for (int64_t i = 0; i < n; ++i)
    counts.add(convert<float>(values[i * step]), static_cast<int>(i % Counts::kLanes));
}

}  // namespace

FloatRange range_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16:
      return {.smallest = -24, .smallest_normal = -14, .largest = 15};
    case Dtype::bfloat16:
      return {.smallest = -133, .smallest_normal = -126, .largest = 127};
    case Dtype::float32:
      return {.smallest = -149, .smallest_normal = -126, .largest = 127};
    default:
      raise<DtypeError>("range", "expected float16, bfloat16 or float32, got {}", dtype);
  }
}

void ExponentHistogram::add(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.device() != Device::cpu()) return;
  std::vector<Counts> threads(static_cast<size_t>(num_threads()));
  visit_dtype(tensor.dtype(), [&]<class T>() {
    const T* values = tensor.data<T>();
    StridedLoop<1>(tensor.shape(), {tensor.strides()})
        .run([&](const Steps<1>& at, int64_t n, const Steps<1>& step) {
          tally(values + at[0], n, step[0], threads[static_cast<size_t>(omp_get_thread_num())]);
        });
  });
  for (const Counts& counts : threads) {
    zeros_ += counts.zeros;
    counts_[0] += counts.at(0) - counts.zeros;
    for (size_t word = 1; word < kWords - 1; ++word) counts_[word] += counts.at(word);
    not_finite_ += counts.at(kWords - 1);
  }
}

void ExponentHistogram::add(const ExponentHistogram& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  zeros_ += other.zeros_;
  not_finite_ += other.not_finite_;
}

int64_t ExponentHistogram::non_zero() const {
  return std::accumulate(counts_.begin(), counts_.end(), not_finite_);
}

std::optional<int> ExponentHistogram::lowest() const {
  for (int e = kLeast; e <= kMost; ++e)
    if (count(e) > 0) return e;
  return {};
}

std::optional<int> ExponentHistogram::highest() const {
  for (int e = kMost; e >= kLeast; --e)
    if (count(e) > 0) return e;
  return {};
}

RangeShares ExponentHistogram::shares(const FloatRange& range, int shift) const {
  const int64_t all = non_zero();
  if (all == 0) return {};
  int64_t lost = 0, subnormal = 0, near = 0, over = not_finite_;
  for (int e = kLeast; e <= kMost; ++e) {
    const int there = e + shift;
    if (there < range.smallest - 1)
      lost += count(e);
    else if (there < range.smallest_normal)
      subnormal += count(e);
    else if (there > range.largest)
      over += count(e);
    else if (there > range.largest - 3)
      near += count(e);
  }
  const auto share = [all](int64_t n) { return static_cast<double>(n) / static_cast<double>(all); };
  return {
      .lost = share(lost), .subnormal = share(subnormal), .near = share(near), .over = share(over)};
}

}  // namespace brim
