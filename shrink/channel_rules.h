// What each op does to channels, a table with one line an op, in channel_rules.cc; an op of your
// own joins it:
//
//   const bool softplus_rule = set_channel_rule("softplus", channel_rules::elementwise);
//
// An op without a rule fixes all channels that it reads and makes: models that use it can be pruned
// everywhere else.
#pragma once

#include <functional>
#include <string_view>

#include "brim/shrink/channel_flow.h"

namespace brim::shrink {

/// Unites channels that go together, and labels the outputs.
using ChannelRule = std::function<void(ChannelFlow&)>;

/// Adds the op of this name, as `Op::name` has it, to the table, or changes its line. True, so that
/// it can be said once, beside the op.
bool set_channel_rule(std::string_view op, ChannelRule rule);
/// What the table says; empty for an op that is not in it.
ChannelRule channel_rule(std::string_view op);

namespace channel_rules {

/// Each element of the first output comes from those at the same place of the inputs, which
/// broadcast. A channel of zeros need not give zeros.
void elementwise(ChannelFlow& flow);
/// The last axis stays what it is, and each of its channels is worked on apart: pooling.
void per_channel(ChannelFlow& flow);
/// The outputs hold elements of the inputs, in another order or shape.
void rearranged(ChannelFlow& flow);
/// Channels that go in and come out stay as they are.
void fixed(ChannelFlow& flow);

}  // namespace channel_rules
}  // namespace brim::shrink
