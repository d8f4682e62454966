// All layers, for code that defines a model.
#pragma once

#include "brim/nn/avg_pool2d.h"
#include "brim/nn/batch_norm2d.h"
#include "brim/nn/conv2d.h"
#include "brim/nn/dropout.h"
#include "brim/nn/flatten.h"
#include "brim/nn/global_avg_pool.h"
#include "brim/nn/identity.h"
#include "brim/nn/linear.h"
#include "brim/nn/max_pool2d.h"
#include "brim/nn/relu.h"
#include "brim/nn/relu6.h"
#include "brim/nn/sequential.h"
