// A trace in Chrome's trace event format, for Perfetto (ui.perfetto.dev) and chrome://tracing: ops,
// sections and steps as slices, live bytes by category as counters. For who looks at time as much
// as at bytes; the page of html.h shows every buffer.
// Format: "Trace Event Format", Google, 2016.
#pragma once

#include <string>

#include "brim/memory/trace.h"

namespace brim::memory {

/// JSON. Without measured times a request is a microsecond. Throws `ValueError` for a trace whose
/// lifetimes do not lie within it.
std::string chrome_trace(const Trace& trace);

}  // namespace brim::memory
