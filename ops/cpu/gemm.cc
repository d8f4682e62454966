#include "brim/ops/cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {
namespace {

// A tile of C is kTileRows x 2 vectors: 12 sums, 2 vectors of B and one of A fill the 16 registers
// of AVX2.
constexpr int kTileRows = 6;
template <class T>
constexpr int kTileColumns = 2 * kLanes<Vector<T>>;
constexpr int64_t kBlockDepth = 256;    // a panel of B, 16 KiB, stays in the first-level cache
constexpr int64_t kBlockRows = 96;      // rows of A, 96 KiB, in the second
constexpr int64_t kBlockColumns = 768;  // columns of B
constexpr int64_t kGrain = 1 << 16;     // multiplications that repay a second thread

int64_t round_up_to(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

/// Panels of an operand with columns [column, column + columns) and terms [begin, begin + depth):
/// [panel][depth][kWidth], zero beyond the last column. For rows that run across the sum.
template <int kWidth, class T>
void pack_across(const Rows<T>& rows, int64_t column, int64_t columns, int64_t begin, int64_t depth,
                 T* buffer, T* packed) {
  for (int64_t p = 0; p < depth; ++p) {
    const T* row = rows.row(begin + p, column, columns, buffer);
    T* to = packed + p * kWidth;
    int64_t j = 0;
    for (; j + kWidth <= columns; j += kWidth, to += depth * kWidth)
      std::memcpy(to, row + j, kWidth * sizeof(T));  // not std::copy: GCC calls memmove for it
    if (j == columns) continue;
    std::copy(row + j, row + columns, to);
    std::fill(to + columns - j, to + kWidth, T(0));
  }
}

/// The same for rows that run along the sum: one panel, from a row for each column. The last column
/// fills what is beyond it.
template <int kWidth, class T>
void pack_along(const Rows<T>& rows, int64_t column, int64_t columns, int64_t begin, int64_t depth,
                T* buffer, T* panel) {
  const T* row[kWidth];
  for (int j = 0; j < kWidth; ++j)
    row[j] = rows.row(column + std::min<int64_t>(j, columns - 1), begin, depth, buffer + j * depth);
  // A cache line of each row at a time: rows may lie so that they push each other out.
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t line = 0; line < depth; line += kLine)
    for (int j = 0; j < kWidth; ++j)
      for (int64_t p = line; p < std::min(line + kLine, depth); ++p)
        panel[p * kWidth + j] = row[j][p];
}

/// What each thread works in.
template <class T>
struct Scratch {
  T* b;       // panels of B
  T* a;       // kBlockRows rows of A
  T* buffer;  // rows on their way to a panel

  Scratch(ScratchCursor& cursor, int64_t n, int64_t k) {
    int64_t depth = std::min(k, kBlockDepth);
    b = cursor.take<T>(std::min(round_up_to(n, kTileColumns<T>), kBlockColumns) * depth);
    a = cursor.take<T>(kBlockRows * depth);
    buffer = cursor.take<T>(std::max(kTileColumns<T> * kBlockDepth, kBlockColumns));
  }
};

/// The sums of one tile: a[i][p * kStep] times row p of the panel of B.
template <int kStep, class T>
inline void multiply_tile(const T* const* a, const T* b, int64_t depth,
                          T (&tile)[kTileRows][kTileColumns<T>]) {
  using V = Vector<T>;
  constexpr int kWidth = kLanes<V>;
  V sums[kTileRows][2] = {};
  const T *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3], *a4 = a[4], *a5 = a[5];
  for (int64_t p = 0; p < depth; ++p, b += 2 * kWidth) {
    V left = load<V>(b), right = load<V>(b + kWidth);
    auto add = [&](int i, T value) {
      V x = broadcast<V>(value);
      sums[i][0] = fma(x, left, sums[i][0]);
      sums[i][1] = fma(x, right, sums[i][1]);
    };
    int64_t at = p * kStep;
    add(0, a0[at]);
    add(1, a1[at]);
    add(2, a2[at]);
    add(3, a3[at]);
    add(4, a4[at]);
    add(5, a5[at]);
  }
  for (int i = 0; i < kTileRows; ++i) {
    store(tile[i], sums[i][0]);
    store(tile[i] + kWidth, sums[i][1]);
  }
}

/// One row of a tile to C: stored (with its bias) when `first`, else added.
template <class T, class Sum>
inline void write_row(const T* sums, const T* bias, bool first, int64_t columns, Sum* c) {
  if (!first) {
    for (int64_t j = 0; j < columns; ++j) c[j] += static_cast<Sum>(sums[j]);
  } else if (bias != nullptr) {
    for (int64_t j = 0; j < columns; ++j)
      c[j] = static_cast<Sum>(sums[j]) + static_cast<Sum>(bias[j]);
  } else {
    for (int64_t j = 0; j < columns; ++j) c[j] = static_cast<Sum>(sums[j]);
  }
}

template <class T, class Sum>
void write_tile(const Gemm<T, Sum>& g, int64_t i0, int64_t rows, int64_t j0, int64_t columns,
                bool first, const T (&tile)[kTileRows][kTileColumns<T>]) {
  Sum* c = g.c + i0 * g.c_stride + j0;
  const T* bias = g.bias == nullptr ? nullptr : g.bias + j0;
  if (columns == kTileColumns<T>) {  // the length is known: vectors
    for (int64_t i = 0; i < rows; ++i)
      write_row(tile[i], bias, first, kTileColumns<T>, c + i * g.c_stride);
  } else {
    for (int64_t i = 0; i < rows; ++i) write_row(tile[i], bias, first, columns, c + i * g.c_stride);
  }
}

/// A range of rows or columns of C.
struct Part {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// One block of the product: some columns of C and some terms, for which B lies packed.
template <class T, class Sum>
struct Block {
  const Gemm<T, Sum>& g;
  const Scratch<T>& scratch;
  Part columns, terms;
  static constexpr int64_t kWidth = kTileColumns<T>;

  void pack() const {
    const Rows<T>& rows = *g.b.rows;
    int64_t depth = terms.size();
    if (!g.b.transposed)
      return pack_across<kTileColumns<T>>(rows, columns.begin, columns.size(), terms.begin, depth,
                                          scratch.buffer, scratch.b);
    for (int64_t j = 0; j < columns.size(); j += kWidth)
      pack_along<kTileColumns<T>>(rows, columns.begin + j, columns.size() - j, terms.begin, depth,
                                  scratch.buffer, scratch.b + j * depth);
  }

  /// Rows of A as pointers: into the matrix itself where it lies along the sum, and else into
  /// panels of kTileRows.
  void rows_of_a(Part rows, const T** pointers) const {
    int64_t padded = round_up_to(rows.size(), kTileRows), depth = terms.size();
    if (g.a.transposed) {
      pack_across<kTileRows>(*g.a.rows, rows.begin, rows.size(), terms.begin, depth, scratch.buffer,
                             scratch.a);
      for (int64_t i = 0; i < padded; ++i)
        pointers[i] = scratch.a + i / kTileRows * kTileRows * depth + i % kTileRows;
      return;
    }
    for (int64_t i = 0; i < rows.size(); ++i)
      pointers[i] = g.a.rows->row(rows.begin + i, terms.begin, depth, scratch.a + i * depth);
    for (int64_t i = rows.size(); i < padded; ++i) pointers[i] = pointers[rows.size() - 1];
  }

  void multiply(Part rows) const {
    const T* pointers[kBlockRows];
    rows_of_a(rows, pointers);
    for (int64_t j = 0; j < columns.size(); j += kWidth) multiply_panel(pointers, rows, j);
  }

  void multiply_panel(const T* const* pointers, Part rows, int64_t j) const {
    int64_t depth = terms.size(), count = std::min(kWidth, columns.size() - j);
    const T* b = scratch.b + j * depth;
    bool first = terms.begin == 0 && !g.accumulate;
    T tile[kTileRows][kTileColumns<T>];
    for (int64_t i = 0; i < rows.size(); i += kTileRows) {
      if (g.a.transposed) {
        multiply_tile<kTileRows>(pointers + i, b, depth, tile);
      } else {
        multiply_tile<1>(pointers + i, b, depth, tile);
      }
      write_tile(g, rows.begin + i, std::min<int64_t>(kTileRows, rows.size() - i),
                 columns.begin + j, count, first, tile);
    }
  }
};

/// Part of C, by one thread: block by block of columns, terms and rows.
template <class T, class Sum>
void multiply_part(const Gemm<T, Sum>& g, Part rows, Part columns, const Scratch<T>& scratch) {
  for (int64_t j = columns.begin; j < columns.end; j += kBlockColumns)
    for (int64_t p = 0; p < g.k; p += kBlockDepth) {
      Block<T, Sum> block{g,
                          scratch,
                          {j, std::min(j + kBlockColumns, columns.end)},
                          {p, std::min(p + kBlockDepth, g.k)}};
      block.pack();
      for (int64_t i = rows.begin; i < rows.end; i += kBlockRows)
        block.multiply({i, std::min(i + kBlockRows, rows.end)});
    }
}

template <class T, class Sum>
void fill_bias(const Gemm<T, Sum>& g) {
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j)
      g.c[i * g.c_stride + j] = g.bias == nullptr ? Sum(0) : static_cast<Sum>(g.bias[j]);
}

}  // namespace

template <class T>
int64_t gemm_scratch(int64_t m, int64_t n, int64_t k) {
  if (m == 0 || n == 0 || k == 0) return 0;
  ScratchCursor cursor(nullptr);
  for (int thread = 0; thread < num_threads(); ++thread) Scratch<T>(cursor, n, k);
  return cursor.used();
}

template <class T, class Sum>
void gemm(const Gemm<T, Sum>& g, void* scratch) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    if (!g.accumulate) fill_bias(g);
    return;
  }
  // Each thread takes a part of C and packs what it needs itself: packing twice the operand that
  // belongs to the shorter side is cheaper than waiting for each other at every block.
  bool by_rows = g.m >= g.n;
  int64_t unit = by_rows ? kTileRows : kTileColumns<T>, size = by_rows ? g.m : g.n;
  int64_t threads = std::clamp<int64_t>(g.m * g.n * g.k / kGrain, 1, num_threads());
  parallel_pieces(ceil_div(size, unit), threads, [&](int64_t thread, int64_t begin, int64_t end) {
    ScratchCursor cursor(scratch);
    for (int64_t i = 0; i < thread; ++i) Scratch<T>(cursor, g.n, g.k);
    Scratch<T> mine(cursor, g.n, g.k);
    Part part{begin * unit, std::min(end * unit, size)};
    multiply_part(g, by_rows ? part : Part{0, g.m}, by_rows ? Part{0, g.n} : part, mine);
  });
}

template int64_t gemm_scratch<float>(int64_t, int64_t, int64_t);
template int64_t gemm_scratch<double>(int64_t, int64_t, int64_t);
template void gemm(const Gemm<float, float>&, void*);
template void gemm(const Gemm<float, double>&, void*);
template void gemm(const Gemm<double, double>&, void*);

}  // namespace brim::cpu
