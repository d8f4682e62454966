// Sizes in code: `2 * GiB`. For those that people write see base/bytes.h.
#pragma once

#include <cstdint>

namespace brim {

inline constexpr int64_t KiB = int64_t{1} << 10, MiB = int64_t{1} << 20, GiB = int64_t{1} << 30;

}  // namespace brim
