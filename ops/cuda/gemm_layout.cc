#include "brim/ops/cuda/gemm.h"

namespace brim::cuda {
namespace {

/// A row-major matrix [rows,columns] that is used as it is, or transposed.
ColumnMajor column_major(int64_t rows, int64_t columns, bool transposed) {
  return {.rows = columns, .columns = rows, .leading = columns, .transposed = transposed};
}

}  // namespace

GemmLayout::GemmLayout(const Gemm& g)
    : left(g.transpose_b ? column_major(g.n, g.k, true) : column_major(g.k, g.n, false)),
      right(g.transpose_a ? column_major(g.k, g.m, true) : column_major(g.m, g.k, false)),
      result(column_major(g.m, g.n, false)) {}

}  // namespace brim::cuda
