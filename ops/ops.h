// Every op, for programs that use many; a source that uses few compiles faster with their headers.
// All run on the CPU and the meta device, have images in NHWC, and take tensors by value: move in
// what is not needed any more. Layers, which own their weights, are in nn/layers.h; what only
// authors of ops need (op.h, broadcast.h, reuse.h, rows.h) is not part of this.
#pragma once

#include "brim/ops/add.h"
#include "brim/ops/avg_pool2d.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/binary_cross_entropy_with_logits.h"
#include "brim/ops/cast.h"
#include "brim/ops/concat.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/cross_entropy.h"
#include "brim/ops/dropout.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/kl_div.h"
#include "brim/ops/linear.h"
#include "brim/ops/log_softmax.h"
#include "brim/ops/matmul.h"
#include "brim/ops/max_pool2d.h"
#include "brim/ops/mean.h"
#include "brim/ops/mse_loss.h"
#include "brim/ops/mul.h"
#include "brim/ops/normalize.h"
#include "brim/ops/pad.h"
#include "brim/ops/permute.h"
#include "brim/ops/relu.h"
#include "brim/ops/relu6.h"
#include "brim/ops/reshape.h"
#include "brim/ops/slice.h"
#include "brim/ops/softmax.h"
#include "brim/ops/sum.h"
