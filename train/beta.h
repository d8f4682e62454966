// A draw from the Beta distribution, for the shares of mixed images (train/mix.h). For uniform and
// normal numbers see base/random.h.
#pragma once

#include "brim/base/random.h"

namespace brim {

/// From Beta(alpha, alpha), in [0, 1], for alpha from 1e-6: x / (x + y) of two draws from
/// the Gamma distribution, whose logarithms are kept, because of the draws themselves both may be
/// too small for a double. Method: G. Marsaglia and W. W. Tsang, "A simple method for generating
/// gamma variables", ACM TOMS 26 (2000). Takes a few numbers from `random`, not always as many.
double draw_beta(double alpha, RandomStream& random);

}  // namespace brim
