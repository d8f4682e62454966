// Bytes against extra time of plans that recompute: a picture, and a page with it and its numbers.
// Both are one file that needs nothing beside it and draws without JavaScript. The plans come from
// train/recompute_curve.h; what one plan does over time is on the page of html.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::memory {

/// A way to run a step.
struct DrawnWay {
  std::string name;       ///< "" for a plan that needs none
  int64_t bytes = 0;      ///< held at the peak
  double extra_time = 0;  ///< share of the step that keeps everything: 0.04 for 4% more
  /// No plan that holds as little takes less; as `extra_time`. Of ways beside the plans not looked
  /// at.
  double bound = 0;
  int64_t rebuilt = 0;  ///< values that are made again
};

struct RecomputePage {
  std::string title = "Bytes against time";
  std::vector<std::string> subtitle;  ///< lines below it: the model, the batch
  /// Plans, with falling bytes and rising time. The first keeps everything.
  std::vector<DrawnWay> plans;
  std::vector<DrawnWay> beside;  ///< other ways, marked
  int64_t budget = 0;            ///< bytes; 0: none
};

/// The page, in HTML. Throws `ValueError` for no plans, bytes that are not above 0 or do not fall,
/// time or bounds below 0 or not finite, and time that does not rise.
std::string recompute_page(const RecomputePage& page);

/// The picture alone, as an SVG file. Throws the same.
std::string recompute_picture(const RecomputePage& page);

}  // namespace brim::memory
