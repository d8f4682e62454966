#include "brim/ops/cpu/register.h"

namespace brim::cpu {

bool register_kernels() {
  static const bool done = [] {
    register_elementwise();
    register_where();
    register_comparison();
    register_normalize();
    register_pad();
    register_sum();
    register_conv2d();
    register_conv2d_half();
    register_fused_conv2d();
    register_normalized_conv2d();
    register_linear();
    register_matmul();
    register_batch_norm();
    register_batch_norm_backward();
    register_max_pool2d();
    register_avg_pool2d();
    register_global_avg_pool();
    register_softmax();
    register_log_softmax();
    register_cross_entropy();
    register_mse_loss();
    register_binary_cross_entropy_with_logits();
    register_kl_div();
    register_group_norm();
    register_scaled_dot_product_attention();
    register_dropout();
    register_max();
    register_adaptive_avg_pool2d();
    register_interpolate();
    register_conv_transpose2d();
    register_embedding();
    register_gather();
    register_squeeze_excitation();
    return true;
  }();
  return done;
}

}  // namespace brim::cpu
