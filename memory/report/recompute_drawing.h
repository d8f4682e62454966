// The picture of recompute_page.h, as SVG elements without the <svg> around them: axes, the curve,
// the bound, points with names that make way for each other. Colours are those of classes in
// page/curve.css. Programs call recompute_page.h.
#pragma once

#include <string>

#include "brim/memory/report/recompute_page.h"

namespace brim::memory {

/// For the attribute viewBox.
std::string recompute_view_box();
/// `page` has been checked.
std::string recompute_drawing(const RecomputePage& page);

}  // namespace brim::memory
