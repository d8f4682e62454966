#include "brim/memory/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "brim/memory/control_groups.h"
#include "brim/memory/proc_numbers.h"
#include "brim/memory/source.h"

namespace brim::memory {

int64_t control_group_limit(const std::string& membership, const std::string& root) {
  int64_t least = Source::kUnlimited;
  for (const ControlGroup& group : control_groups(membership, root))
    least = std::min(least, group.limit);
  return least;
}

int64_t host_memory() {
  static const int64_t bytes = [] {
    std::ifstream file("/proc/self/cgroup");
    std::string membership{std::istreambuf_iterator<char>(file), {}};
    int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    return std::min(machine, control_group_limit(membership, "/sys/fs/cgroup"));
  }();
  return bytes;
}

ResidentMemory resident_memory() {
  auto numbers = proc_numbers("/proc/self/status");
  ResidentMemory memory{.now = numbers["VmRSS"], .peak = numbers["VmHWM"]};
  // Not every container has VmHWM. What getrusage says may be of the program that started this one.
  rusage usage{};
  if (memory.peak == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
    memory.peak = int64_t{usage.ru_maxrss} * 1024;
  memory.peak = std::max(memory.peak, memory.now);  // the kernel's counts lag by some pages
  return memory;
}

}  // namespace brim::memory
