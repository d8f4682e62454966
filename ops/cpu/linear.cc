#include "brim/ops/linear.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

constexpr int64_t kPieces = 16;   // of the rows, summed apart; fixed, whatever the threads
constexpr int64_t kMinRows = 64;  // of a piece

struct Sums {
  int64_t rows, columns, pieces;
  double* totals;  // [pieces][columns]

  Sums(const KernelCall& call, ScratchCursor& cursor) : columns(call.out[0].numel()) {
    rows = columns == 0 ? 0 : call.in[0].numel() / columns;
    pieces = std::clamp<int64_t>(rows / kMinRows, 1, kPieces);
    totals = cursor.take<double>(pieces * columns);
  }
};

int64_t bias_gradient_scratch(const KernelCall& call, const NoAttributes&) {
  ScratchCursor cursor(nullptr);
  Sums(call, cursor);
  return cursor.used();
}

/// Adds rows [begin, end), four at a time.
template <class T>
void sum_rows(const T* dy, int64_t columns, int64_t begin, int64_t end, double* total) {
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
    const T *a = dy + row * columns, *b = a + columns, *c = b + columns, *d = c + columns;
    for (int64_t j = 0; j < columns; ++j)
      total[j] += (static_cast<double>(a[j]) + static_cast<double>(b[j])) +
                  (static_cast<double>(c[j]) + static_cast<double>(d[j]));
  }
  for (; row < end; ++row)
    for (int64_t j = 0; j < columns; ++j) total[j] += static_cast<double>(dy[row * columns + j]);
}

template <class T>
void bias_gradient_kernel(const KernelCall& call, const NoAttributes&) {
  ScratchCursor cursor(call.scratch);
  Sums sums(call, cursor);
  const T* dy = call.in[0].as<T>();
  T* db = call.out[0].as<T>();
  std::fill_n(sums.totals, sums.pieces * sums.columns, 0.0);
  parallel_pieces(sums.rows, sums.pieces, [&](int64_t piece, int64_t begin, int64_t end) {
    sum_rows(dy, sums.columns, begin, end, sums.totals + piece * sums.columns);
  });
  for (int64_t j = 0; j < sums.columns; ++j) {
    double total = 0;
    for (int64_t piece = 0; piece < sums.pieces; ++piece)
      total += sums.totals[piece * sums.columns + j];
    db[j] = static_cast<T>(total);
  }
}

}  // namespace

void register_linear() {
  register_kernel(kernel::bias_gradient, DeviceType::cpu, Dtype::float32,
                  bias_gradient_kernel<float>, bias_gradient_scratch);
  register_kernel(kernel::bias_gradient, DeviceType::cpu, Dtype::float64,
                  bias_gradient_kernel<double>, bias_gradient_scratch);
}

}  // namespace brim::cpu
