#include "brim/ops/autocast.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "brim/autograd/call_again.h"
#include "brim/base/stand_in.h"
#include "brim/ops/cast.h"
#include "brim/ops/onednn.h"

namespace brim {
namespace {

constexpr const char* kTag = "autocast";
constexpr auto kLow = AutocastRule::low, kFloat32 = AutocastRule::float32,
               kWidest = AutocastRule::widest, kLikeFirst = AutocastRule::like_first,
               kAsGiven = AutocastRule::as_given;

class Table {
 public:
  static Table& get() {
    static auto* table = new Table;
    return *table;
  }
  std::optional<AutocastRule> find(std::string_view op) const {
    std::shared_lock lock(mutex_);
    auto found = rules_.find(op);
    if (found == rules_.end()) return {};
    return found->second;
  }
  void set(std::string_view op, AutocastRule rule) {
    std::unique_lock lock(mutex_);
    rules_.insert_or_assign(std::string(op), rule);
  }
  /// As `find`. What is not in the table enters it, and is said.
  AutocastRule at(const char* op) {
    if (const std::optional<AutocastRule> rule = find(op)) return *rule;
    std::unique_lock lock(mutex_);
    if (rules_.emplace(op, kWidest).second)
      // A standard error that is closed or full stops no training, as fmt::print would.
      std::fprintf(stderr,
                   "brim: autocast has no rule for the op '%s': it runs in the widest dtype of its "
                   "inputs (set_autocast_rule, brim/ops/autocast.h, says otherwise)\n",
                   op);
    return kWidest;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, AutocastRule, std::less<>> rules_{
      {"conv2d", kLow},
      {"conv_transpose2d", kLow},
      {"fused_conv2d", kLow},
      {"linear", kLow},
      {"matmul", kLow},

      {"binary_cross_entropy_with_logits", kFloat32},
      {"cross_entropy", kFloat32},
      {"exp", kFloat32},
      {"kl_div", kFloat32},
      {"log", kFloat32},
      {"log_softmax", kFloat32},
      {"mean", kFloat32},
      {"mse_loss", kFloat32},
      {"sum", kFloat32},

      {"add", kWidest},
      {"concat", kWidest},
      {"div", kWidest},
      {"mul", kWidest},
      {"sub", kWidest},
      {"where", kWidest},

      {"batch_norm", kLikeFirst},

      {"abs", kAsGiven},
      {"adaptive_avg_pool2d", kAsGiven},
      {"argmax", kAsGiven},
      {"eq", kAsGiven},
      {"ne", kAsGiven},
      {"lt", kAsGiven},
      {"le", kAsGiven},
      {"gt", kAsGiven},
      {"ge", kAsGiven},
      {"avg_pool2d", kAsGiven},
      {"cast", kAsGiven},
      {"clamp", kAsGiven},
      {"dropout", kAsGiven},
      {"embedding", kAsGiven},
      {"gather", kAsGiven},
      {"gelu", kAsGiven},
      {"global_avg_pool", kAsGiven},
      {"group_norm", kAsGiven},
      {"hardsigmoid", kAsGiven},
      {"hardswish", kAsGiven},
      {"interpolate", kAsGiven},
      {"layer_norm", kAsGiven},
      {"leaky_relu", kAsGiven},
      {"max", kAsGiven},
      {"max_pool2d", kAsGiven},
      {"neg", kAsGiven},
      {"normalize", kAsGiven},
      {"pad", kAsGiven},
      {"permute", kAsGiven},
      {"relu", kAsGiven},
      {"relu6", kAsGiven},
      {"reshape", kAsGiven},
      {"sigmoid", kAsGiven},
      {"silu", kAsGiven},
      {"slice", kAsGiven},
      {"softmax", kAsGiven},
      {"split", kAsGiven},
      {"squeeze_excitation", kAsGiven},
      {"sqrt", kAsGiven},
      {"tanh", kAsGiven},
  };
};

bool may_cast(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

bool has_float64(const Tensors& inputs) {
  return std::ranges::any_of(inputs, [](const Tensor& input) {
    return input.defined() && input.dtype() == Dtype::float64;
  });
}

Dtype widest(const Tensors& inputs) {
  std::optional<Dtype> wide;
  for (const Tensor& input : inputs)
    if (may_cast(input))
      wide = wide.value_or(input.dtype()) == input.dtype() ? input.dtype() : Dtype::float32;
  return wide.value_or(Dtype::float32);
}

bool is_parameter(const Tensor& tensor) {
  return tensor.is_leaf() && tensor.requires_grad() && autograd::grad_enabled();
}

// Not where an earlier backward has let go of what its values could be made again from.
bool can_share(const autograd::Node& node) {
  const auto& value = node.values.front();
  return value == nullptr || !autograd::is_made_again(value->fate()) || value->can_be_made_again();
}

/// The casts of parameters on the tape. Held by those who read them, not by this.
class SharedCasts {
 public:
  Tensor cast_of(const Tensor& parameter, Dtype dtype, const Where& where) {
    Known& known = casts_[{parameter.body(), dtype}];
    const uint32_t version = parameter.storage()->version();
    if (auto node = known.node.lock(); node && can_share(*node) && known.version == version)
      return autograd::result_again(node, {parameter});
    Tensor low = cast(parameter, dtype, where);
    known = {autograd::producer_of(low), version};
    return low;
  }

 private:
  struct Known {
    std::weak_ptr<autograd::Node> node;
    uint32_t version = 0;
  };
  std::map<std::pair<const TensorBody*, Dtype>, Known> casts_;
};

}  // namespace

class Autocast::Rule final : public autograd::InputRule {
 public:
  Rule(Dtype dtype, std::shared_ptr<SharedCasts> casts) : dtype_(dtype), casts_(std::move(casts)) {}

  void prepare(const autograd::Op& op, Tensors& inputs, const Where& where) override {
    const AutocastRule rule = Table::get().at(op.name());
    if (rule == kAsGiven || inputs.empty() || has_float64(inputs)) return;
    if (rule == kLikeFirst && !may_cast(inputs.front())) return;
    const Dtype to = target(rule, inputs);
    const int like = rule == kLikeFirst ? inputs.front().dim() : 0;
    for (Tensor& input : inputs)
      if (may_cast(input) && input.dtype() != to && (rule != kLikeFirst || input.dim() == like))
        input = is_parameter(input) ? casts_->cast_of(input, to, where)
                                    : cast(std::move(input), to, where);
  }

  Dtype dtype() const { return dtype_; }
  const std::shared_ptr<SharedCasts>& casts() const { return casts_; }

 private:
  Dtype target(AutocastRule rule, const Tensors& inputs) const {
    if (rule == kLow) return dtype_;
    if (rule == kFloat32) return Dtype::float32;
    return rule == kLikeFirst ? inputs.front().dtype() : widest(inputs);
  }

  Dtype dtype_;
  std::shared_ptr<SharedCasts> casts_;
};

thread_local Autocast::Rule* Autocast::current = nullptr;

std::optional<AutocastRule> autocast_rule(std::string_view op) { return Table::get().find(op); }

bool set_autocast_rule(std::string_view op, AutocastRule rule) {
  Table::get().set(op, rule);
  return true;
}

Autocast::Autocast(Dtype dtype) : before_(current), rule_(make_rule(dtype)), scope_(rule_.get()) {
  current = rule_.get();
}

Autocast::~Autocast() { current = before_; }

std::unique_ptr<Autocast::Rule> Autocast::make_rule(Dtype dtype) {
  if (dtype == Dtype::float32) return nullptr;
  expect<DtypeError>(is_low_precision(dtype), kTag, "expected float16, bfloat16 or float32, got {}",
                     dtype);
  if (current == nullptr) return std::make_unique<Rule>(dtype, std::make_shared<SharedCasts>());
  expect<DtypeError>(current->dtype() == dtype, kTag,
                     "expected {} as in the scope around this one, got {}: between the two, switch "
                     "it off with Autocast(Dtype::float32) and cast by hand",
                     current->dtype(), dtype);
  return std::make_unique<Rule>(dtype, current->casts());
}

Dtype autocast_dtype() {
  return Autocast::current == nullptr ? Dtype::float32 : Autocast::current->dtype();
}

bool has_native_products(Dtype dtype, Device device) {
  return device_meant(device).is_cuda() || (dtype == Dtype::bfloat16 && onednn::has_bfloat16());
}

}  // namespace brim
