// Histograms of the exponents of a training's numbers as a page for a browser, with what a type of
// 16 bits makes of them. One file that needs nothing beside it and draws without JavaScript. The
// numbers come from train/numerics.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::memory {

/// The values of one op, as a row of the page.
struct DrawnExponents {
  std::string module, op, values;
  int first = 0;                ///< the exponent of `counts[0]`
  std::vector<int64_t> counts;  ///< values with each exponent
  std::vector<std::string> cells;
  bool marked = false;  ///< for the reader to look at
};

struct NumericsPage {
  std::string title = "Numbers of a training";
  std::vector<std::string> subtitle;  ///< lines below it: the model, the batch
  std::vector<std::string> summary;   ///< sentences above the table
  std::vector<std::string> columns;   ///< names of the rows' cells
  std::vector<DrawnExponents> rows;
  /// Exponents of the type's smallest number, smallest normal one and largest, shown behind the
  /// histograms.
  int smallest = -24, smallest_normal = -14, largest = 15;
};

/// The page, in HTML. Throws `ValueError` for a row with more or fewer cells than there are
/// columns, and for a count below 0.
std::string numerics_page(const NumericsPage& page);

}  // namespace brim::memory
