#include "brim/ops/cuda/register.h"

namespace brim::cuda {

bool register_kernels() {
  static const bool done = [] {
    register_batch_norm();
    register_batch_norm_statistics();
    register_comparison();
    register_conv2d();
    register_cross_entropy();
    register_elementwise();
    register_elementwise_loss();
    register_embedding();
    register_gather();
    register_group_norm();
    register_interpolate();
    register_linear();
    register_matmul();
    register_max();
    register_pool();
    register_scaled_dot_product_attention();
    register_select();
    register_softmax();
    register_sum();
    return true;
  }();
  return done;
}

}  // namespace brim::cuda
