// The CPU's part of the kernel table: one line per file of kernels here and in register.cc. They
// are calls, not static objects of each file, because a linker leaves out files of a library that
// nothing refers to; `brim::register_kernels` makes them. Ops outside of this tree call
// `register_kernel` (core/launch.h) in the same way.
#pragma once

namespace brim::cpu {

/// Enters every kernel once; returns true.
bool register_kernels();

void register_elementwise();
void register_where();
void register_comparison();
void register_normalize();
void register_pad();
void register_sum();
void register_conv2d();
void register_conv2d_half();
void register_fused_conv2d();
void register_normalized_conv2d();
void register_linear();
void register_matmul();
void register_dropout();
void register_cross_entropy();
void register_mse_loss();
void register_binary_cross_entropy_with_logits();
void register_kl_div();
void register_group_norm();
void register_scaled_dot_product_attention();
void register_log_softmax();
void register_softmax();
void register_global_avg_pool();
void register_avg_pool2d();
void register_max_pool2d();
void register_batch_norm();
void register_batch_norm_backward();
void register_max();
void register_adaptive_avg_pool2d();
void register_interpolate();
void register_conv_transpose2d();
void register_embedding();
void register_gather();
void register_squeeze_excitation();

}  // namespace brim::cpu
