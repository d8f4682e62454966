// Matrix products C = A B on operands that need not exist in memory: each is a `Rows`, which
// hands out stretches of its rows. Convolution without a library is such a product, with a matrix
// of windows that is never stored.
// Scratch is the caller's and bounded; the order of every sum depends on the sizes alone, so
// results are the same for any number of threads.
//
// Method: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM
// Transactions on Mathematical Software 34 (2008): B packed in panels, a tile of C in registers.
#pragma once

#include <cstdint>

namespace brim::cpu {

template <class T>
class Rows {
 public:
  virtual ~Rows() = default;
  /// Elements [begin, begin + count) of row i: where they are, or `buffer` after writing them
  /// there.
  virtual const T* row(int64_t i, int64_t begin, int64_t count, T* buffer) const = 0;
};

/// A matrix in memory.
template <class T>
class DenseRows final : public Rows<T> {
 public:
  DenseRows(const T* data, int64_t stride) : data_(data), stride_(stride) {}
  const T* row(int64_t i, int64_t begin, int64_t, T*) const override {
    return data_ + i * stride_ + begin;
  }

 private:
  const T* data_;
  int64_t stride_;
};

template <class T>
struct Operand {
  const Rows<T>* rows;
  bool transposed = false;  ///< the rows are the columns of the operand
};

/// C [m,n] = A [m,k] B [k,n] + bias [n], or C += A B. Sums over 256 terms are in T, the rest in
/// Sum: give double for long sums of float.
template <class T, class Sum>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  Operand<T> a, b;
  Sum* c = nullptr;
  int64_t c_stride = 0;     ///< elements from one row of C to the next
  const T* bias = nullptr;  ///< not with `accumulate`
  bool accumulate = false;
};

/// Bytes of scratch for operands of these sizes.
template <class T>
int64_t gemm_scratch(int64_t m, int64_t n, int64_t k);

/// For (T, Sum) of (float, float), (float, double), (double, double).
template <class T, class Sum>
void gemm(const Gemm<T, Sum>& gemm, void* scratch);

}  // namespace brim::cpu
