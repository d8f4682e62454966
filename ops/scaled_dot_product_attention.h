// Attention of queries over keys and values, softmax(q k^T / sqrt(E)) v: Vaswani et al., "Attention
// Is All You Need", NIPS 2017. A composite of `matmul`, `add` and `softmax`: the scores of all
// pairs exist as one tensor [...,L,S], and two of them at the peak; the softmax stays for backward
// (with dropout, its result too), so bytes grow with the square of the length. There is no fused,
// blockwise kernel. Heads are a leading axis: [N,heads,L,E].
#pragma once

#include <optional>

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

struct AttentionOptions {
  /// Broadcasts to the scores [...,L,S]. bool: true where a query may see a key; or of q's dtype:
  /// added to the scores, and gets a gradient. Or undefined.
  Tensor mask = {};
  bool causal = false;  ///< query i sees keys 0 to i alone; beside a mask, both hold
  /// The chance of each weight to become 0, also in evaluation: the mode is the caller's matter.
  double dropout = 0;
  std::optional<double> scale;  ///< of q k^T; by default 1 / sqrt(E)
};

/// y = dropout(softmax(scale * q k^T + mask)) v, the softmax over the keys.
///
/// q [...,L,E], k [...,S,E], v [...,S,F] of one floating dtype; the leading axes broadcast;
/// y is [...,L,F]. A query that may see no key gets NaN.
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together,
/// `ValueError` for a dropout outside [0, 1].
Tensor scaled_dot_product_attention(Tensor q, Tensor k, Tensor v, AttentionOptions options = {},
                                    Where where = Where::current());

namespace kernel {
/// in: mask, bool, contiguous, or absent for that of causal attention; out: bias of its shape (for
/// causal attention [L,S]), 0 where a query may see a key, else -infinity.
inline constexpr Kernel<NoAttributes> attention_bias{"attention_bias"};
}  // namespace kernel

}  // namespace brim
