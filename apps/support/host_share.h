// How much of the memory that this process can have a training on the CPU may give to its tensors:
// what is available as it starts, less what the process takes beside them, less a margin. A GPU's
// memory is in planned_device.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "brim/memory/memory_bounds.h"

namespace brim::apps {

struct TrainFlags;

struct HostShare {
  memory::MemoryBound bound;  ///< that leaves least
  int64_t process = 0;        ///< for libraries, threads, planning, images that are decoded or kept
  int64_t margin = 0;
  int64_t image_bytes = 0;  ///< of an image that waits in one of the loader's slots
  int64_t slots = 0;        ///< of training, and as many of evaluation

  /// Where an update has so many images and evaluation as many as `batch` at once; at least 1.
  int64_t for_tensors(int64_t update_images, int64_t batch) const {
    const int64_t waiting = slots * (update_images + batch) * image_bytes;
    return std::max<int64_t>(bound.available - process - margin - waiting, 1);
  }
};

/// The share of the run that the flags ask for, from what is available now. Call it after all flags
/// are set.
HostShare host_share(const TrainFlags& flags,
                     const std::vector<memory::MemoryBound>& bounds = memory::memory_bounds());

/// "memory: 980 MiB of the 1 GiB of the control group /a are available; ...", for people.
std::string to_string(const HostShare& share);

/// Images of a split are kept in host memory up to so many bytes, where nobody said how many.
int64_t unasked_cache(const std::vector<memory::MemoryBound>& bounds = memory::memory_bounds());

/// Throws `ValueError` for a budget that is more than one of the bounds has in all.
void require_budget_within(
    int64_t budget, const std::vector<memory::MemoryBound>& bounds = memory::memory_bounds());

}  // namespace brim::apps
