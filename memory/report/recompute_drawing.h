// The picture of recompute_page.h, as SVG elements without the <svg> around them. Colours are those
// of classes in page/curve.css.
#pragma once

#include <string>

#include "brim/memory/report/recompute_page.h"

namespace brim::memory {

/// For the attribute viewBox.
std::string recompute_view_box();
/// `page` has been checked.
std::string recompute_drawing(const RecomputePage& page);

}  // namespace brim::memory
