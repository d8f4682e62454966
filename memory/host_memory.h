// How much memory this process may hold at most, and how much it holds. From Linux's /proc and
// control groups, so that the limit of a container counts. These are numbers of the whole process,
// code and libraries included; for those of tensors and scratch ask `memory::account`.
#pragma once

#include <cstdint>
#include <string>

namespace brim::memory {

/// Bytes of the machine's memory, or of the smallest control group (Linux cgroup v2 or v1) that
/// this process is in, where that is less. What others hold of it is not subtracted.
int64_t host_memory();

/// What the process holds of the machine's memory, tensors or not: bytes now and at the peak. 0
/// where the system does not tell.
struct ResidentMemory {
  int64_t now = 0, peak = 0;
};
ResidentMemory resident_memory();

/// The smallest memory limit over the groups that `membership` (the text of /proc/self/cgroup)
/// names and the groups above them, below `root` (/sys/fs/cgroup); `Source::kUnlimited` for none.
int64_t control_group_limit(const std::string& membership, const std::string& root);

}  // namespace brim::memory
