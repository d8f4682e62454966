// What the numbers of a training that a `NumericsWatch` looked at lose in a 16-bit type, or would
// lose: by op, worst first, with the loss scale that suits the gradients, and the ops that want
// float32. Of a run in float32 it tells what is to be expected before one changes; of a run in the
// type itself what underflowed is among the zeros already.
#pragma once

#include <string>
#include <vector>

#include "brim/train/numerics_watch.h"

namespace brim {

/// One op's values in the type.
struct NumericsRow {
  const WatchedValues* values;
  RangeShares shares;  ///< of gradients: with `loss_scale`
  bool needs_float32;
};

struct NumericsReport {
  Dtype type = Dtype::float16;
  /// A power of two: the largest, up to 2^24, that the gradients looked at leave room for, by half
  /// of it. 1 where the type needs none, or the losses were scaled as they were looked at.
  double loss_scale = 1;
  /// Of all values of a kind together, but gradients of parameters that autocast leaves in float32;
  /// gradients as they were, and with `loss_scale`.
  RangeShares activations, gradients, scaled_gradients;
  /// As the watch has them.
  std::vector<NumericsRow> rows;
};

/// An op wants float32 where values would overflow, or more than 1% of them (zeros apart) become 0,
/// and autocast does not run it in float32 anyway. Throws `DtypeError` for a type that is none of
/// float16, bfloat16 and float32. The report is of what `watch` saw so far: it must not look at
/// more, nor end, while the report is used.
NumericsReport numerics_report(const NumericsWatch& watch, Dtype type);

/// For people: the summary in sentences, one a line.
std::vector<std::string> summary_of(const NumericsReport& report, const NumericsWatch& watch);
/// And a table of the `most` rows that lose most.
std::string table_of(const NumericsReport& report, size_t most = 20);

/// As a page for a browser, with the histograms of all rows (memory/report/numerics_page.h).
/// `about` are lines on the run: the model, the batch.
std::string numerics_page(const NumericsReport& report, const NumericsWatch& watch,
                          const std::vector<std::string>& about = {});

}  // namespace brim
