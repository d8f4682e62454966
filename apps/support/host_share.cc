#include "brim/apps/support/host_share.h"

#include <fmt/format.h>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/base/parallel.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Measured by bench/containers.py as the most that a control group held beside the account's
// reserved bytes: 7 MiB (ResNet-20) to 15 MiB (ResNet-152) of compiled kernels, modules and heap,
// and up to 46 MiB where plans were searched for, which the C library keeps some of.
constexpr int64_t kProcess = 48 * kMiB;
// A stack that is used, oneDNN's and libgomp's state, a heap of its own: 0.3 to 3 MiB by the same.
constexpr int64_t kThread = 3 * kMiB;
// A photograph of 12 megapixels, decoded whole, as a PNG is.
constexpr int64_t kPicture = 36 * kMiB;
// Percent of the bound: page tables are 0.2% of what is held, and the kernel charges groups in
// batches for each core and counts buffers of its own. The planner keeps what it reserves to the
// byte, so this is for what is not its own.
constexpr int64_t kMargin = 3;

constexpr int64_t kCachePart = 16;  // of what is available, for each split

bool is_loaded(const TrainFlags& flags) { return flags.data != "synthetic"; }
bool is_of_files(const TrainFlags& flags) { return is_loaded(flags) && flags.data != "shapes"; }

int64_t beside_tensors(const TrainFlags& flags, const memory::MemoryBound& bound) {
  const int64_t workers = is_loaded(flags) ? 2 * std::max(flags.workers, 0) : 0;  // of two loaders
  const int64_t threads = num_threads() - 1 + workers;
  int64_t bytes = kProcess + threads * kThread;
  if (bound.of_addresses) bytes += threads * memory::thread_addresses();
  if (is_of_files(flags)) bytes += workers * kPicture + 2 * cache_size(flags);
  return bytes;
}

HostShare share_of(const TrainFlags& flags, const memory::MemoryBound& bound) {
  const int64_t pixels = int64_t{flags.size} * flags.size * 3;
  constexpr int64_t kLabel = 8;
  return {.bound = bound,
          .process = beside_tensors(flags, bound),
          .margin = bound.limit / 100 * kMargin,
          .image_bytes = pixels + kLabel,
          .slots = is_loaded(flags) ? std::max(flags.workers, 0) + 2 : 1};
}

}  // namespace

HostShare host_share(const TrainFlags& flags, const std::vector<memory::MemoryBound>& bounds) {
  auto left = [](const HostShare& share) { return share.for_tensors(0, 0); };
  HostShare least = share_of(flags, {"the machine", memory::host_memory(), memory::host_memory()});
  for (const memory::MemoryBound& bound : bounds)
    if (HostShare share = share_of(flags, bound); left(share) < left(least)) least = share;
  return least;
}

std::string to_string(const HostShare& share) {
  return fmt::format(
      "memory: {} of the {} of {} are available; {} of it are for the process beside tensors, and "
      "{} are left free",
      format_bytes(share.bound.available), format_bytes(share.bound.limit), share.bound.name,
      format_bytes(share.process), format_bytes(share.margin));
}

int64_t unasked_cache(const std::vector<memory::MemoryBound>& bounds) {
  int64_t bytes = 256 * kMiB;
  for (const memory::MemoryBound& bound : bounds)
    bytes = std::min(bytes, bound.available / kCachePart);
  return bytes;
}

void require_budget_within(int64_t budget, const std::vector<memory::MemoryBound>& bounds) {
  for (const memory::MemoryBound& bound : bounds)
    expect<ValueError>(budget <= bound.limit, "flags",
                       "--budget {} ({} bytes) is more than the {} ({} bytes) that {} may hold",
                       format_bytes(budget), budget, format_bytes(bound.limit), bound.limit,
                       bound.name);
}

}  // namespace brim::apps
