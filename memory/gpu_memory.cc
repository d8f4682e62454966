#include "brim/memory/gpu_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/cuda/context.h"
#include "brim/base/cuda/memory.h"
#include "brim/memory/account.h"

namespace brim::memory {

GpuMemory gpu_memory(Device device, int64_t reserved) {
  const cuda::Context context = cuda::open_context(device);
  const cuda::MemoryInfo now = cuda::memory_info(device);
  return {.total = now.total,
          .free = now.free,
          .reserved = reserved,
          .context = context.bytes,
          .context_is_measured = context.is_measured,
          .others = std::max<int64_t>(now.total - now.free - reserved - context.bytes, 0)};
}

GpuMemory gpu_memory(Device device) {
  return gpu_memory(device, account(device)->stats().reserved);
}

std::string to_string(const GpuMemory& memory) {
  const std::string context = memory.context_is_measured
                                  ? fmt::format("context {}, others", format_bytes(memory.context))
                                  : "context, which was not measured, and others";
  return fmt::format("{} in all, {} free, {} reserved, {} {}", format_bytes(memory.total),
                     format_bytes(memory.free), format_bytes(memory.reserved), context,
                     format_bytes(memory.others));
}

}  // namespace brim::memory
