// A training whose model has fewer channels, as a change of one that is to be rehearsed, for the
// ladder: what it would hold. Which channels they are makes no difference to that. To make such a
// model see shrink/prune.h and the program `prune`.
#pragma once

#include "brim/train/rehearsal.h"

namespace brim {

struct PrunedTraining {
  RehearsalOptions rehearsal;
  double flops_left = 0;  ///< of a forward pass
};

/// Without about so large a share of each layer's channels, in [0, 1]. `rehearsal` has no loss of
/// its own: the shape of the input follows from its size. Throws what `shrink::Pruner` throws.
PrunedTraining with_fewer_channels(const RehearsalOptions& rehearsal, double share);

}  // namespace brim
