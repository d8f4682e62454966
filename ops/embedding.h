// Rows of a table by their numbers: PyTorch's `embedding`, the first layer of models of words. The
// gradient of the table is dense, as large as the table. To pick single elements along an axis
// instead use `gather`, for a range of rows `slice`.
#pragma once

#include <cstdint>
#include <optional>

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

struct EmbeddingOptions {
  /// A row that stands for no word: it gets no gradient. Its values are used as they are.
  std::optional<int64_t> padding_index;
};

/// y[...,:] = weight[indices[...],:].
///
/// indices int64 or int32, weight [rows,width] of a floating dtype; the result is [...,width].
/// The gradient of a row is the sum, in double and in the order of the indices, over all places
/// that name it: the same with any number of threads. Saves the indices.
///
/// Throws `ShapeError` or `DtypeError` for tensors that do not go together, `ValueError` for a
/// padding index outside [0, rows) and, on the CPU, for the first such index; on a GPU it makes
/// NaN.
Tensor embedding(Tensor indices, Tensor weight, const EmbeddingOptions& options = {},
                 Where where = Where::current());

namespace kernel {
/// in: indices, weight; out: y. Contiguous.
inline constexpr Kernel<NoAttributes> embedding{"embedding"};
/// in: dy, indices; out: dweight, every element written. Contiguous.
inline constexpr Kernel<EmbeddingOptions> embedding_backward{"embedding_backward"};
}  // namespace kernel

}  // namespace brim
