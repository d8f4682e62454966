// Weights with many zeros in a file that is smaller for it: compressed rows, in the parts and under
// the names of a `torch.sparse_csr_tensor`. A weight of PyTorch's shape [out,...] is a matrix of
// `out` rows; "<name>.crow_indices" has where each begins, int32 [out+1], "<name>.col_indices" and
// "<name>.values" the columns and values of what is not zero. A weight that would be no smaller so
// is written as it is. For all weights as they are use nn/weights.h.
#pragma once

#include <string>

#include "brim/nn/weights.h"

namespace brim::shrink {

struct SparseReport {
  int64_t dense_bytes = 0;   ///< of all parameters and buffers
  int64_t stored_bytes = 0;  ///< of what the file has for them
  int64_t compressed = 0;    ///< tensors in compressed rows
  double zeros = 0;          ///< share of all parameters' elements
};

/// Writes parameters and buffers, in the model's dtype. `read_sparse_weights` makes the same bits
/// of it. Throws what `nn::save_weights` throws.
SparseReport write_sparse_weights(nn::Module& model, const std::string& path,
                                  const nn::ModelCard& card = {});

/// What `write_sparse_weights` would store, without a file.
SparseReport sparse_report(nn::Module& model);

/// Sets parameters and buffers from such a file. The file is untrusted: throws `FileError` naming
/// it and the tensor for one that is missing, of another dtype or shape, or whose rows or columns
/// are out of order or range; nothing of that tensor and of those after it has changed then. One
/// that the model does not have is found last.
void read_sparse_weights(nn::Module& model, const std::string& path);

}  // namespace brim::shrink
