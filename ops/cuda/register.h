// CUDA's part of the kernel table, as ops/cpu/register.h is the CPU's: one line per file of kernels
// here and in register.cc. They are entered in every build with the toolkit, whether or not there
// is a GPU; in one without, `register_kernels` does nothing. An op that has no kernel here says so
// when it is launched on a GPU.
#pragma once

namespace brim::cuda {

/// Enters every kernel once; returns true.
bool register_kernels();

void register_batch_norm();
void register_batch_norm_statistics();
void register_comparison();
void register_conv2d();
void register_cross_entropy();
void register_elementwise();
void register_elementwise_loss();
void register_embedding();
void register_gather();
void register_group_norm();
void register_interpolate();
void register_linear();
void register_matmul();
void register_max();
void register_pool();
void register_scaled_dot_product_attention();
void register_select();
void register_softmax();
void register_sum();

}  // namespace brim::cuda
