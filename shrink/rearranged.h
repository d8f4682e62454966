// What ops that only move elements do to channels: they are run on the labels themselves. The rules
// of reshape, permute, concat, split, slice and pad.
#pragma once

#include "brim/shrink/channel_flow.h"

namespace brim::shrink {

/// Reshape, permute, concat, and any op that does the same to whole numbers.
void rearranged_rule(ChannelFlow& flow);
/// Parts of equal size stay equal: a model that splits in two halves does so after pruning.
/// Channels of other parts are fixed.
void split_rule(ChannelFlow& flow);
/// Fixes the channels where not all are taken: which they are is written in the model.
void slice_rule(ChannelFlow& flow);
/// The channels of a border of zeros are new ones. As many before as behind the old ones stay as
/// many; those of any other border, or other values, are fixed.
void pad_rule(ChannelFlow& flow);

}  // namespace brim::shrink
