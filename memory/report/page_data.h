// What the page in memory/report/page/ draws, as JSON: a column a property of the buffers, and text
// once, in a table. page/model.js is its reader.
#pragma once

#include <string>

#include "brim/memory/report/html.h"

namespace brim::memory {

/// JSON that can stand inside a <script> element: no "<" is in it.
std::string page_data(const Trace& trace, const PageOptions& options);

}  // namespace brim::memory
