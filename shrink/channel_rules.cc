#include "brim/shrink/channel_rules.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "brim/shrink/rearranged.h"

namespace brim::shrink {
namespace {

constexpr auto kOutput = ChannelRole::output, kInput = ChannelRole::input,
               kShift = ChannelRole::shift;

// Channels of x and of a weight's axis that holds one of `groups` parts of them.
void unite_groups(ChannelSets& sets, const ChannelIds& channels, const ChannelIds& of_one) {
  for (size_t i = 0; i < channels.size(); ++i) sets.unite(channels[i], of_one[i % of_one.size()]);
}

// The channels of each group go with those of the first: as many are removed of each.
void unite_with_first(ChannelSets& sets, const ChannelIds& channels, size_t in_group) {
  for (size_t i = in_group; i < channels.size(); ++i)
    sets.unite(channels[i], channels[i % in_group]);
}

// Depthwise: each group has one channel of x, and makes some; they go together.
void unite_depthwise(ChannelSets& sets, const ChannelIds& in, const ChannelIds& out) {
  const size_t made = out.size() / in.size();
  for (size_t i = 0; i < out.size(); ++i) sets.unite(in[i / made], out[i]);
}

void finish_product(ChannelFlow& flow, ChannelIds out) {
  if (flow.has(2)) flow.sets().unite(flow.axis(2, 0, kShift), out);
  flow.label_channels(0, std::move(out));
}

// Channels of the result of a convolution.
ChannelIds convolved(ChannelFlow& flow) {
  const ChannelIds in = flow.channels(0);
  const ChannelIds out = flow.axis(1, 0, kOutput);
  const auto in_group = static_cast<size_t>(flow.input_shape(1)[3]);
  const size_t groups = in.size() / in_group;
  if (groups > 1 && in_group == 1) {
    unite_depthwise(flow.sets(), in, out);
  } else {
    unite_groups(flow.sets(), in, flow.axis(1, 3, kInput));
    unite_with_first(flow.sets(), out, out.size() / groups);
  }
  return out;
}

void conv2d_rule(ChannelFlow& flow) { finish_product(flow, convolved(flow)); }

// x, weight, and of bias and residual what there is.
void fused_conv2d_rule(ChannelFlow& flow) {
  ChannelIds out = convolved(flow);
  for (size_t i = 2; i < flow.inputs(); ++i)
    flow.sets().unite(out,
                      flow.input_shape(i).size() == 1 ? flow.axis(i, 0, kShift) : flow.channels(i));
  flow.label_channels(0, std::move(out));
}

void conv_transpose2d_rule(ChannelFlow& flow) {
  const ChannelIds in = flow.channels(0);
  flow.sets().unite(in, flow.axis(1, 0, kInput));
  const int64_t made = flow.output_shape(0).back(), by_one = flow.input_shape(1)[3];
  if (made == by_one) return finish_product(flow, flow.axis(1, 3, kOutput));
  ChannelIds out = flow.sets().add(made);
  if (by_one == 1 && made == static_cast<int64_t>(in.size())) {
    unite_depthwise(flow.sets(), in, out);
  } else {
    unite_groups(flow.sets(), out, flow.axis(1, 3, kOutput));
    unite_with_first(flow.sets(), in, in.size() / static_cast<size_t>(made / by_one));
  }
  finish_product(flow, std::move(out));
}

void linear_rule(ChannelFlow& flow) {
  flow.sets().unite(flow.channels(0), flow.axis(1, 1, kInput));
  finish_product(flow, flow.axis(1, 0, kOutput));
}

// By a matrix; of batches of matrices the channels are fixed.
void matmul_rule(ChannelFlow& flow) {
  if (flow.input_shape(1).size() != 2) return channel_rules::fixed(flow);
  flow.sets().unite(flow.channels(0), flow.axis(1, 0, kInput));
  flow.label_channels(0, flow.axis(1, 1, kOutput));
}

void embedding_rule(ChannelFlow& flow) { flow.label_channels(0, flow.axis(1, 1, kOutput)); }

// x, weight, bias, in evaluation the running mean and variance, last the residual.
void batch_norm_rule(ChannelFlow& flow) {
  const ChannelIds channels = flow.channels(0);
  constexpr ChannelRole kRoles[] = {ChannelRole::other, ChannelRole::scale, kShift,
                                    ChannelRole::statistic, ChannelRole::statistic};
  for (size_t i = 1; i < flow.inputs(); ++i) {
    if (!flow.has(i)) continue;
    const bool is_vector = flow.input_shape(i).size() == 1 && i < std::size(kRoles);
    flow.sets().unite(channels, is_vector ? flow.axis(i, 0, kRoles[i]) : flow.channels(i));
  }
  flow.label_channels(0, channels);
}

// x, and of the two products weight and bias each: hidden channels between, and a gate a channel.
void squeeze_excitation_rule(ChannelFlow& flow) {
  const ChannelIds channels = flow.channels(0), hidden = flow.axis(1, 0, kOutput);
  flow.sets().unite(channels, flow.axis(1, 3, kInput));
  flow.sets().unite(hidden, flow.axis(2, 0, kShift));
  flow.sets().unite(hidden, flow.axis(3, 3, kInput));
  flow.sets().unite(channels, flow.axis(3, 0, kOutput));
  flow.sets().unite(channels, flow.axis(4, 0, kShift));
  flow.label_channels(0, channels);
}

// The axes of x that `out` has, where there is one way only for the others to be gone. One that is
// reduced may stay as 1.
std::vector<int> axes_left(const Shape& x, const Shape& out) {
  std::vector<int> left;
  int ways = 0;
  for (unsigned chosen = 0; chosen < 1u << x.size(); ++chosen) {
    std::vector<int> axes;
    for (int axis = 0; axis < x.size(); ++axis)
      if (chosen >> axis & 1u) axes.push_back(axis);
    const bool fits = static_cast<int>(axes.size()) == out.size() &&
                      std::ranges::equal(axes, out, {}, [&](int axis) { return x[axis]; });
    if (!fits) continue;
    left = std::move(axes);
    ++ways;
  }
  return ways == 1 ? left : std::vector<int>();
}

// Sums, means, maxima: channels that none of the reduced axes counts pass.
void reduction_rule(ChannelFlow& flow) {
  const ChannelLabels in = flow.labels(0);
  const Shape &x = flow.input_shape(0), &y = flow.output_shape(0);
  ChannelLabels out{{}, in.ids};
  if (x.size() == y.size()) {
    for (int axis = 0; axis < x.size(); ++axis)
      out.shape.push_back(x[axis] == y[axis] ? in.shape[axis] : 1);
  } else {
    for (int axis : axes_left(x, y)) out.shape.push_back(in.shape[axis]);
  }
  if (out.shape.size() != y.size() || numel(out.shape) != static_cast<int64_t>(out.ids.size()))
    return channel_rules::fixed(flow);
  flow.label(0, std::move(out));
}

class Table {
 public:
  static Table& get() {
    static auto* table = new Table;
    return *table;
  }
  ChannelRule find(std::string_view op) const {
    std::shared_lock lock(mutex_);
    auto found = rules_.find(op);
    return found == rules_.end() ? ChannelRule() : found->second;
  }
  void set(std::string_view op, ChannelRule rule) {
    std::unique_lock lock(mutex_);
    rules_.insert_or_assign(std::string(op), std::move(rule));
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, ChannelRule, std::less<>> rules_{
      {"conv2d", conv2d_rule},
      {"conv_transpose2d", conv_transpose2d_rule},
      {"fused_conv2d", fused_conv2d_rule},
      {"embedding", embedding_rule},
      {"linear", linear_rule},
      {"matmul", matmul_rule},

      {"batch_norm", batch_norm_rule},
      {"squeeze_excitation", squeeze_excitation_rule},

      {"abs", channel_rules::elementwise},
      {"add", channel_rules::elementwise},
      {"cast", channel_rules::elementwise},
      {"clamp", channel_rules::elementwise},
      {"div", channel_rules::elementwise},
      {"dropout", channel_rules::elementwise},
      {"eq", channel_rules::elementwise},
      {"exp", channel_rules::elementwise},
      {"ge", channel_rules::elementwise},
      {"gelu", channel_rules::elementwise},
      {"gt", channel_rules::elementwise},
      {"hardsigmoid", channel_rules::elementwise},
      {"hardswish", channel_rules::elementwise},
      {"le", channel_rules::elementwise},
      {"leaky_relu", channel_rules::elementwise},
      {"log", channel_rules::elementwise},
      {"lt", channel_rules::elementwise},
      {"mul", channel_rules::elementwise},
      {"ne", channel_rules::elementwise},
      {"neg", channel_rules::elementwise},
      {"relu", channel_rules::elementwise},
      {"relu6", channel_rules::elementwise},
      {"sigmoid", channel_rules::elementwise},
      {"silu", channel_rules::elementwise},
      {"sqrt", channel_rules::elementwise},
      {"sub", channel_rules::elementwise},
      {"tanh", channel_rules::elementwise},
      {"where", channel_rules::elementwise},

      {"adaptive_avg_pool2d", channel_rules::per_channel},
      {"avg_pool2d", channel_rules::per_channel},
      {"global_avg_pool", channel_rules::per_channel},
      {"interpolate", channel_rules::per_channel},
      {"max_pool2d", channel_rules::per_channel},

      {"concat", channel_rules::rearranged},
      {"permute", channel_rules::rearranged},
      {"reshape", channel_rules::rearranged},
      {"pad", pad_rule},
      {"slice", slice_rule},
      {"split", split_rule},

      {"max", reduction_rule},
      {"mean", reduction_rule},
      {"sum", reduction_rule},

      // Of several channels together: without one, the results of the others are other ones.
      {"argmax", channel_rules::fixed},
      {"binary_cross_entropy_with_logits", channel_rules::fixed},
      {"cross_entropy", channel_rules::fixed},
      {"gather", channel_rules::fixed},
      {"group_norm", channel_rules::fixed},
      {"kl_div", channel_rules::fixed},
      {"layer_norm", channel_rules::fixed},
      {"log_softmax", channel_rules::fixed},
      {"mse_loss", channel_rules::fixed},
      {"normalize", channel_rules::fixed},
      {"softmax", channel_rules::fixed},
  };
};

// Of one operand of an elementwise op.
struct Operand {
  ChannelLabels labels;  // of the result's rank
  Shape shape;
};

Shape padded_to(int rank, const Shape& shape) {
  Shape padded = Shape::filled(rank - shape.size(), 1);
  for (int64_t size : shape) padded.push_back(size);
  return padded;
}

// Does the operand say nothing of the channels of the others, as a number for each image or each
// pixel does?
bool is_neutral(const Operand& operand, const Shape& varying) {
  if (operand.labels.varying_axes() > 0) return false;
  bool spans = false;  // is there an axis along which channels differ?
  for (int axis = 0; axis < varying.size(); ++axis) {
    if (varying[axis] == 1) continue;
    spans = true;
    if (operand.shape[axis] != 1) return false;
  }
  return spans || operand.labels.ids.front() == ChannelSets::kFixed;
}

}  // namespace

bool set_channel_rule(std::string_view op, ChannelRule rule) {
  Table::get().set(op, std::move(rule));
  return true;
}

ChannelRule channel_rule(std::string_view op) { return Table::get().find(op); }

namespace channel_rules {

void elementwise(ChannelFlow& flow) {
  const int rank = flow.output_shape(0).size();
  Shape varying = Shape::filled(rank, 1);
  std::vector<Operand> operands;
  for (size_t i = 0; i < flow.inputs(); ++i) {
    if (!flow.has(i)) continue;
    Operand operand{flow.labels(i), padded_to(rank, flow.input_shape(i))};
    operand.labels.shape = padded_to(rank, operand.labels.shape);
    for (int axis = 0; axis < rank; ++axis)
      varying[axis] = std::max(varying[axis], operand.labels.shape[axis]);
    operands.push_back(std::move(operand));
  }
  ChannelLabels result{varying, {}};
  for (const Operand& operand : operands) {
    if (is_neutral(operand, varying)) {
      flow.sets().fix(operand.labels.ids);
      continue;
    }
    ChannelIds ids = expanded(operand.labels, varying);
    if (result.ids.empty())
      result.ids = std::move(ids);
    else
      flow.sets().unite(result.ids, ids);
  }
  flow.label(0, result.ids.empty() ? ChannelLabels::fixed(rank) : std::move(result));
}

void per_channel(ChannelFlow& flow) { flow.label_channels(0, flow.channels(0)); }

void rearranged(ChannelFlow& flow) { rearranged_rule(flow); }

void fixed(ChannelFlow& flow) {
  for (size_t i = 0; i < flow.inputs(); ++i)
    if (flow.has(i)) flow.fix(i);
}

}  // namespace channel_rules
}  // namespace brim::shrink
