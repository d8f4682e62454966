// brim's own kernels for GPUs are in the table: the harness skips an op that has none, so a line
// that got lost would not be missed.
#include <doctest/doctest.h>

#include "brim/base/cuda/devices.h"
#include "brim/ops/op.h"
#include "brim/ops/ops.h"

using namespace brim;

TEST_CASE("cuda kernels: those that need no library are there, emulated or compiled") {
  REQUIRE(kernels_ready);
  for (const char* name : {"accumulate",
                           "add",
                           "relu",
                           "bias_gradient",
                           "sum",
                           "sum_backward",
                           "max",
                           "max_backward",
                           "softmax",
                           "softmax_backward",
                           "log_softmax",
                           "log_softmax_backward",
                           "cross_entropy",
                           "cross_entropy_backward",
                           "mse_loss",
                           "mse_loss_backward",
                           "binary_cross_entropy_with_logits",
                           "binary_cross_entropy_with_logits_backward",
                           "kl_div",
                           "kl_div_backward",
                           "max_pool2d",
                           "max_pool2d_backward",
                           "avg_pool2d",
                           "avg_pool2d_backward",
                           "adaptive_avg_pool2d",
                           "adaptive_avg_pool2d_backward",
                           "global_avg_pool",
                           "global_avg_pool_backward",
                           "batch_norm_statistics",
                           "batch_norm",
                           "batch_norm_backward",
                           "running_statistics",
                           "group_norm",
                           "group_norm_backward",
                           "interpolate",
                           "interpolate_backward",
                           "embedding",
                           "embedding_backward",
                           "gather",
                           "gather_backward",
                           "attention_bias",
                           "conv2d",
                           "conv2d_backward_data",
                           "conv2d_backward_weight",
                           "conv_transpose2d",
                           "where",
                           "pad",
                           "normalize",
                           "dropout"})
    for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
      CHECK_MESSAGE(has_kernel(name, DeviceType::cuda, dtype) == cuda::built(), name, " ",
                    to_string(dtype));
}
