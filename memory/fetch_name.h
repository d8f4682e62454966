// What a buffer is asked for by that a value comes back into from the host: "fetch relu", after the
// op that asked for the buffer which the value left. Traces know buffers and no values; by this
// name, and the module and line that the two share, pages find which belong together
// (memory/report/first_lives.h). To fetch is autograd/host_copy.h.
#pragma once

#include <optional>
#include <string_view>

namespace brim::memory {

inline constexpr std::string_view kFetch = "fetch";

/// "fetch relu" for "relu", "fetch" for "". Lives for ever, the same one for equal names; for any
/// thread.
const char* fetch_name(std::string_view op);

/// "relu" of "fetch relu"; none for what is not the name of a fetch.
std::optional<std::string_view> fetched_op(std::string_view name);

}  // namespace brim::memory
