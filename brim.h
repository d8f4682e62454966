// All that a program needs to train: tensors, ops, layers, models by name, data, optimizers, the
// trainer. Programs that care for compile time include the headers that they use instead. Not in
// it, among others: the classes of models (nn/models/), device and dtype of new modules
// (nn/creation.h), the number of threads (base/parallel.h), what only ops and kernels use.
#pragma once

#include "brim/autograd/backward.h"
#include "brim/autograd/gradcheck.h"
#include "brim/base/cuda/devices.h"
#include "brim/core/tensor.h"
#include "brim/data/device_batch.h"
#include "brim/data/image_folder.h"
#include "brim/data/loader.h"
#include "brim/data/shapes.h"
#include "brim/data/synthetic.h"
#include "brim/io/npy.h"
#include "brim/io/safetensors.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/load_model.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/summary.h"
#include "brim/nn/weights.h"
#include "brim/ops/ops.h"
#include "brim/optim/adamw.h"
#include "brim/optim/schedule.h"
#include "brim/optim/sgd.h"
#include "brim/train/evaluate.h"
#include "brim/train/step_memory.h"
#include "brim/train/train_step.h"
#include "brim/train/trainer.h"
