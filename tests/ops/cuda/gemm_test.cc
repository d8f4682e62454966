// The change from row-major matrices to BLAS's column-major ones, tried with a product that reads
// its operands as BLAS does.
#include "brim/ops/cuda/gemm.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "brim/base/cuda/devices.h"
#include "brim/base/error.h"

using namespace brim;

namespace {

using Numbers = std::vector<double>;

Numbers counted(int64_t size, double start) {
  Numbers values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i * i % 7);
  return values;
}

/// Element (i, j) of op(matrix), as BLAS finds it.
double element(const Numbers& data, const cuda::ColumnMajor& matrix, int64_t i, int64_t j) {
  if (matrix.transposed) std::swap(i, j);
  REQUIRE(i < matrix.rows);
  REQUIRE(j < matrix.columns);
  return data[static_cast<size_t>(i + j * matrix.leading)];
}

/// result = op(left) op(right), by columns.
Numbers blas(const Numbers& left, const Numbers& right, const cuda::GemmLayout& layout) {
  Numbers result(static_cast<size_t>(layout.result.rows * layout.result.columns));
  int64_t depth = layout.left.transposed ? layout.left.rows : layout.left.columns;
  CHECK(depth == (layout.right.transposed ? layout.right.columns : layout.right.rows));
  for (int64_t j = 0; j < layout.result.columns; ++j)
    for (int64_t i = 0; i < layout.result.rows; ++i)
      for (int64_t p = 0; p < depth; ++p)
        result[static_cast<size_t>(i + j * layout.result.leading)] +=
            element(left, layout.left, i, p) * element(right, layout.right, p, j);
  return result;
}

/// y [m,n] = a b, by rows, as ops/matmul.h says it.
Numbers product(const Numbers& a, const Numbers& b, const cuda::Gemm& g) {
  Numbers y(static_cast<size_t>(g.m * g.n));
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j)
      for (int64_t p = 0; p < g.k; ++p)
        y[static_cast<size_t>(i * g.n + j)] +=
            a[static_cast<size_t>(g.transpose_a ? p * g.m + i : i * g.k + p)] *
            b[static_cast<size_t>(g.transpose_b ? j * g.k + p : p * g.n + j)];
  return y;
}

}  // namespace

TEST_CASE("cuda gemm: operands change places, and the result is the row-major product") {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true}) {
      cuda::Gemm gemm{.m = 2, .n = 3, .k = 4};
      gemm.transpose_a = transpose_a;
      gemm.transpose_b = transpose_b;
      Numbers a = counted(gemm.m * gemm.k, 1), b = counted(gemm.k * gemm.n, -2);
      CHECK(blas(b, a, cuda::GemmLayout(gemm)) == product(a, b, gemm));
    }
}

TEST_CASE(
    "cuda gemm: without a GPU cuBLASLt takes the matrices, and it is the GPU that is missing") {
  if (cuda::device_count() > 0) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
    for (bool transpose : {false, true}) {
      cuda::Gemm gemm{.dtype = dtype, .m = 2, .n = 3, .k = 4};
      gemm.transpose_a = transpose;
      gemm.transpose_b = !transpose;
      gemm.count = 5;
      gemm.distance_a = 8;
      gemm.distance_y = 6;
      gemm.bias = is_low_precision(dtype);
      std::string text;
      try {
        cuda::find_plan(gemm, Device::cuda());
      } catch (const DeviceError& error) {
        text = error.what();
      }
      if (text.starts_with("cuda: cannot load ")) {
        MESSAGE("skipped: cuBLASLt (", text, ")");
        return;
      }
      CHECK_MESSAGE(text.starts_with("cuda: cudaGetDevice failed: "), text);
    }
}
