#include <algorithm>
#include <numeric>
#include <type_traits>

#include "brim/base/parallel.h"
#include "brim/optim/cpu/register.h"
#include "brim/optim/gradient_reader.h"
#include "brim/optim/optimizer.h"

namespace brim::cpu {
namespace {

constexpr int64_t kPiece = 65536;  // elements that repay a second thread
constexpr int64_t kPieces = 64;    // enough for every thread; their sums are on the stack

/// Adds up elements [begin, end) by add(x[i], square, zero). Quarters side by side: a sum waits for
/// its last addition, and memory does not.
template <class T, class S, class Add>
double sum_piece(const S* x, int64_t begin, int64_t end, const Add& add) {
  const int64_t quarter = (end - begin) / 4;
  const S *a = x + begin, *b = a + quarter, *c = b + quarter, *d = c + quarter;
  double sum_a = 0, sum_b = 0, sum_c = 0, sum_d = 0, rest = 0;
  T zeros_a = 0, zeros_b = 0, zeros_c = 0, zeros_d = 0, zeros = 0;
#pragma omp simd reduction(+ : sum_a, sum_b, sum_c, sum_d, zeros_a, zeros_b, zeros_c, zeros_d)
  for (int64_t i = 0; i < quarter; ++i) {
    add(a[i], sum_a, zeros_a);
    add(b[i], sum_b, zeros_b);
    add(c[i], sum_c, zeros_c);
    add(d[i], sum_d, zeros_d);
  }
  for (const S* at = d + quarter; at < x + end; ++at) add(*at, rest, zeros);
  zeros += zeros_a + zeros_b + zeros_c + zeros_d;
  return sum_a + sum_b + sum_c + sum_d + rest + static_cast<double>(zeros);
}

// 0 * x is a zero for every finite x and NaN for the others, and NaN survives a sum: no branches,
// unlike std::isfinite with an early end. The squares alone would not do: one of float64 may
// overflow, and clipping makes finite what was not.
template <class T, class S>
double sum_of_read(const S* x, int64_t begin, int64_t end, const optim::GradientReader<T>& read) {
  return sum_piece<T>(x, begin, end, [&](S stored, double& squares, T& zeros) {
    const T element = convert<T>(stored);
    const auto value = static_cast<double>(read(element));
    squares += value * value;
    zeros += 0 * element;
  });
}

// The same where elements are read as they are. No sum of squares of float32 overflows float64: it
// is finite where they all are.
template <class S>
double sum_of_plain(const S* x, int64_t begin, int64_t end) {
  const double sum = sum_piece<float>(x, begin, end, [](S stored, double& squares, float&) {
    const auto value = static_cast<double>(convert<float>(stored));
    squares += value * value;
  });
  return sum + 0 * sum;
}

// Pieces are cut by size alone and their sums added in order: the same bits with any number of
// threads.
template <class T, class S = T>
void square_sum(const KernelCall& call, const NoAttributes&) {
  const S* x = call.in[0].as<S>();
  int64_t size = call.in[0].numel(), pieces = std::min(size / kPiece + 1, kPieces);
  const auto read = optim::GradientReader<T>::from(call.in[1].as<double>());
  double sums[kPieces] = {};
  parallel_pieces(size, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, float>)
      if (read.is_plain()) return void(sums[piece] = sum_of_plain(x, begin, end));
    sums[piece] = sum_of_read(x, begin, end, read);
  });
  *call.out[0].as<double>() = std::accumulate(sums, sums + pieces, 0.0);
}

}  // namespace

void register_square_sum() {
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::float32, square_sum<float>);
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::bfloat16,
                  square_sum<float, BFloat16>);
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::float64, square_sum<double>);
}

}  // namespace brim::cpu
