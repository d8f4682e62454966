// The checks of one sample in one dtype, of which `find_faults` is the sum. Internal to op_spec.cc:
// a test declares an `OpSpec` and calls `check_op` (op_spec.h, which lists the checks). Faults are
// collected, exceptions among them, so that one run shows as many as it can.
#pragma once

#include "brim/tests/support/op_spec.h"

namespace brim::testing {

/// Adds what is wrong with this sample in this dtype to `faults`.
void check_sample(const OpSpec& spec, const OpSample& sample, Dtype dtype,
                  std::vector<std::string>& faults);

/// The same sample on another device: values and gradients against the same references, inputs in
/// other layouts, a batch of none.
void check_sample_on(Device device, const OpSpec& spec, const OpSample& sample, Dtype dtype,
                     std::vector<std::string>& faults);

}  // namespace brim::testing
