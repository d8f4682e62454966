#include <algorithm>
#include <numeric>

#include "brim/base/parallel.h"
#include "brim/optim/cpu/register.h"
#include "brim/optim/gradient_reader.h"
#include "brim/optim/optimizer.h"

namespace brim::cpu {
namespace {

constexpr int64_t kPiece = 65536;  // elements that repay a second thread
constexpr int64_t kPieces = 64;    // enough for every thread; their sums are on the stack

// 0 * x is a zero for every finite x and NaN for the others, and NaN survives a sum: no branches,
// unlike std::isfinite with an early end. The squares alone would not do: one of float64 may
// overflow, and clipping makes finite what was not.
template <class T, class S>
double sum_piece(const S* x, int64_t begin, int64_t end, const optim::GradientReader<T>& read) {
  double squares = 0;
  T zeros = 0;
#pragma omp simd reduction(+ : squares, zeros)
  for (int64_t i = begin; i < end; ++i) {
    const T element = convert<T>(x[i]);
    auto value = static_cast<double>(read(element));
    squares += value * value;
    zeros += 0 * element;
  }
  return squares + static_cast<double>(zeros);
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
    sums[piece] = sum_piece(x, begin, end, read);
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
