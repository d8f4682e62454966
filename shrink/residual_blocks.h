// Blocks that a model can do without: they add something to what they are given, so that what is
// left without them is what they were given. Veit, Wilber and Belongie, "Residual Networks Behave
// Like Ensembles of Relatively Shallow Networks", NeurIPS 2016: a trained network that loses one
// still works. Found from the model's trace, as channels are, and not by the names of classes.
//
//   for (const std::string& name : residual_blocks(model, {1, 224, 224, 3}))
//     ...  // how much worse is it without?
//   model.module("layer3.4").bypass();  // then make the optimizer, and train on
#pragma once

#include <string>
#include <vector>

#include "brim/shrink/channel_groups.h"

namespace brim::shrink {

/// Modules that take one tensor x and give one of the same shape, a sum with x itself in it, in
/// which each channel is the one it was in x; whose parameters no other module has; and in which
/// there is no such module. In the order of registration. They must be called with a tensor alone,
/// as `Module::bypass` asks for. What is at, below or above a name to exclude is left out. Throws
/// as `find_channel_groups` does.
std::vector<std::string> residual_blocks(nn::Module& model, const Shape& input,
                                         const ChannelGroupOptions& options = {});

}  // namespace brim::shrink
