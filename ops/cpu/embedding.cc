#include "brim/ops/embedding.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/dtype.h"
#include "brim/ops/cpu/check_indices.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/weighted_rows.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that repay a second thread

/// Calls `body` with a pointer to the indices, of either type.
template <class Body>
void with_indices(const View& indices, const Body& body) {
  if (indices.dtype == Dtype::int32)
    body(indices.as<int32_t>());
  else
    body(indices.as<int64_t>());
}

// Also for half types: rows are moved, not computed with.
template <class T>
void embedding_kernel(const KernelCall& call, const NoAttributes&) {
  const View &indices = call.in[0], &weight = call.in[1];
  int64_t count = indices.numel(), width = weight.shape[1];
  const T* from = weight.as<T>();
  T* to = call.out[0].as<T>();
  with_indices(indices, [&](const auto* index) {
    check_indices(kernel::embedding.name, index, count, weight.shape[0]);
    parallel_for(count, kGrain / (width + 1) + 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::copy_n(from + index[i] * width, width, to + i * width);
    });
  });
}

/// The places that name each row, in order: those of row r are places[start[r]] to
/// places[start[r + 1] - 1].
struct Places {
  int64_t *start, *places;

  Places(ScratchCursor& cursor, int64_t rows, int64_t count)
      : start(cursor.take<int64_t>(rows + 1)), places(cursor.take<int64_t>(count)) {}

  // Counting sort, which is stable.
  template <class Index>
  void fill(const Index* index, int64_t rows, int64_t count) const {
    std::fill_n(start, rows + 1, 0);
    for (int64_t i = 0; i < count; ++i) ++start[index[i]];
    int64_t sum = 0;
    for (int64_t row = 0; row <= rows; ++row) start[row] = sum += start[row];
    for (int64_t i = count - 1; i >= 0; --i) places[--start[index[i]]] = i;
  }
};

int64_t backward_scratch(const KernelCall& call, const EmbeddingOptions&) {
  ScratchCursor cursor(nullptr);
  Places(cursor, call.out[0].shape[0], call.in[1].numel());
  return cursor.used();
}

template <class T>
void embedding_backward_kernel(const KernelCall& call, const EmbeddingOptions& options) {
  const View &indices = call.in[1], &dweight = call.out[0];
  int64_t rows = dweight.shape[0], width = dweight.shape[1], count = indices.numel();
  ScratchCursor cursor(call.scratch);
  Places places(cursor, rows, count);
  with_indices(indices, [&](const auto* index) { places.fill(index, rows, count); });
  const T* dy = call.in[0].as<T>();
  T* to = dweight.as<T>();
  parallel_for(rows, kGrain / (width + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      weighted_rows(width, to + row * width, [&](const auto& add) {
        if (options.padding_index == row) return;
        for (int64_t i = places.start[row]; i < places.start[row + 1]; ++i)
          add(dy + places.places[i] * width, 1.0);
      });
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::embedding_backward, DeviceType::cpu, dtype, embedding_backward_kernel<T>,
                  backward_scratch);
}

}  // namespace

void register_embedding() {
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
    visit_dtype(dtype, [=]<class T>() {
      register_kernel(kernel::embedding, DeviceType::cpu, dtype, embedding_kernel<T>);
    });
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
