// What all elements of an update of AdamW have in common, the same on every device. For kernels;
// the formulas are in optim/adamw.h.
#pragma once

#include <cmath>

#include "brim/base/host_device.h"
#include "brim/optim/adamw.h"

namespace brim::optim {

template <class T>
struct AdamWNumbers {
  T keep;          // 1 - rate * weight_decay
  T step;          // rate / (1 - beta1^t)
  T rest1;         // 1 - beta1
  T beta2, rest2;  // rest2: 1 - beta2
  T root;          // sqrt(1 - beta2^t)
  T epsilon;

  BRIM_HOST_DEVICE static AdamWNumbers from(const double* scalars,
                                            const kernel::AdamWAttributes& a) {
    const double rate = scalars[StepScalars::kRate] * a.rate_factor;
    const double t = scalars[StepScalars::kStep];
    return {static_cast<T>(1 - rate * a.weight_decay),
            static_cast<T>(rate / (1 - std::pow(a.beta1, t))),
            static_cast<T>(1 - a.beta1),
            static_cast<T>(a.beta2),
            static_cast<T>(1 - a.beta2),
            static_cast<T>(std::sqrt(1 - std::pow(a.beta2, t))),
            static_cast<T>(a.epsilon)};
  }
};

}  // namespace brim::optim
