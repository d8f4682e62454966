// One declaration of an op, many checks: samples with an independent reference, and error cases.
// `check_op` then tests values, gradients, dtypes, layouts, memory and replay, so that an op's
// test file says only what is particular to the op. tests/ops/relu_test.cc is the shortest.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "brim/autograd/op.h"

namespace brim {

/// One call of the op on small inputs.
struct OpSample {
  std::string name;
  /// float64 where floating, on the CPU, possibly undefined. Every dtype of the spec gets its own
  /// rounded copies. Gradients are asked for on all floating ones that are not in `no_grad`.
  Tensors inputs;
  /// Calls the public op. Deterministic; nothing but the inputs may live on a device of its own.
  std::function<Tensors(const Tensors&)> run;
  /// The same by plain loops in double, sharing no code with the op. Gets float64 inputs with the
  /// values that `run` got, returns float64 outputs (whole numbers as they are).
  std::function<Tensors(const Tensors&)> reference;
  int64_t reduction = 1;           ///< terms in the longest sum of forward
  int64_t backward_reduction = 0;  ///< of backward; 0: the same
  std::vector<int> no_grad;
  /// Points where the function has no derivative: left out of numerical differences.
  std::function<bool(size_t input, double value)> kink;
  bool differentiable = true;

  /// Inputs with a batch along axis 0: the op also runs with none in it, and the other inputs'
  /// gradients are then zero.
  std::vector<int> batched;
  /// Inputs that are float32 where the dtype under test is lower: statistics and their like.
  std::vector<int> wide;
  /// False where the output is rounded to a fixed dtype, so that differences say nothing.
  bool numeric = true;
  /// Largest intermediate value that neither inputs nor outputs betray; 0 in nearly every op. Its
  /// rounding counts as that of the output does.
  double magnitude = 0;
};

/// A call that must throw a brim `Error` tagged with the op's name, and change nothing.
struct ErrorCase {
  std::function<void()> run;
  std::string text;  ///< expected fragment of what()
};

struct OpSpec {
  std::string op;
  std::vector<OpSample> samples;
  std::vector<ErrorCase> errors;
  std::vector<Dtype> dtypes = {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16};
};

/// Everything that is wrong with the op, one message each; for every sample and dtype:
///  - forward against the reference, gradients against float64, within `allowances` (tolerance.h);
///    float64 gradients against numerical differences;
///  - bits are the same with gradients off, from one run to the next whatever the fresh memory
///    held, for strided and shifted inputs, and when each op inside is replayed alone, which also
///    writes to nothing that was there before;
///  - each op inside knows the line that called it, in a file with "test" in its path;
///  - the meta device infers the same shapes and dtypes, and its account sees the same requests
///    and releases, forward and backward;
///  - with NaN and infinities in the inputs, results are so where the reference's are, and finite
///    and right elsewhere; gradients lose no NaN (non_finite.cc lists the ops that differ, and why);
///  - inputs and incoming gradients stay as they are; all bytes come back, also when any single
///    request is refused; the empty batch works; error cases throw the right text.
std::vector<std::string> find_faults(const OpSpec& spec);

/// The same as doctest checks. Also compares the CPU with CUDA where there is a GPU, and says so
/// where there is none.
void check_op(const OpSpec& spec);

}  // namespace brim
