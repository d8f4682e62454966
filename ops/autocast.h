// Mixed precision: a scope in which ops run in float16 or bfloat16 where that is safe, and in
// float32 elsewhere. Micikevicius et al., "Mixed Precision Training", ICLR 2018; PyTorch's
// `torch.autocast`.
//
//   Tensor loss;
//   {
//     Autocast autocast(Dtype::bfloat16);
//     loss = cross_entropy(model(images), labels);
//   }
//   backward(loss);
//
// Parameters stay as they are, float32; a product casts what it reads, and the gradient that comes
// back is cast to float32. Which op takes what is a table, one line an op, in autocast.cc; an op of
// your own joins it with `set_autocast_rule`. Backward runs each op in the dtype that it had, in or
// out of the scope. See docs/mixed_precision.md.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "brim/autograd/input_rule.h"
#include "brim/core/dtype.h"

namespace brim {

/// In which dtype an op takes its floating inputs within an `Autocast`. Whole numbers and booleans
/// are left alone, and so is an op with an input of float64, whose user wants it that wide.
enum class AutocastRule {
  low,         ///< in that of the scope: convolutions and matrix products
  float32,     ///< in float32: what overflows, or loses too much, in halves; losses, exp, sums
  widest,      ///< in the widest among them; float32 for one float16 and one bfloat16
  like_first,  ///< those with as many dimensions as the first in its dtype, the others as they come
  as_given,    ///< as they come: ops of one tensor, which compute in float32 inside
};

/// What the table says; nothing for an op that is not in it, which takes the widest.
std::optional<AutocastRule> autocast_rule(std::string_view op);
/// Adds the op of this name, as `Op::name` has it, to the table, or changes its line. True, so that
/// it can be said once, beside the op:
///   const bool softplus_rule = set_autocast_rule("softplus", AutocastRule::float32);
bool set_autocast_rule(std::string_view op, AutocastRule rule);

/// Switches this thread's ops to mixed precision until the scope ends. Scopes nest; one of float32
/// switches it off inside.
///
/// Casts of a parameter that wants a gradient are shared within the outermost scope: used twice,
/// it is cast once, and its gradients add up in the half type. Nothing is held for it; whether
/// backward keeps the cast or makes it again is its save policy's choice (autograd/save_policy.h),
/// as for any result.
class Autocast {
 public:
  /// Throws `DtypeError` for what is neither float16, bfloat16 nor float32, and within a scope of
  /// the other half type: values would cross from one to the other and lose what neither has.
  explicit Autocast(Dtype dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  friend Dtype autocast_dtype();
  class Rule;
  static std::unique_ptr<Rule> make_rule(Dtype dtype);
  static thread_local Rule* current;  // null where it is off

  Rule* before_;
  std::unique_ptr<Rule> rule_;
  autograd::InputRuleScope scope_;
};

/// That of the innermost `Autocast` of this thread; float32 where it is off.
Dtype autocast_dtype();

/// Are convolutions (but depthwise and transposed ones) and matrix products of this half type
/// multiplied as they are on the device? Else they go by way of float32: right, but with its time
/// and that of conversions. A GPU does, and of processors those with instructions for bfloat16
/// (AVX512-BF16, AMX) in bfloat16.
bool has_native_products(Dtype dtype, Device device);

}  // namespace brim
