// What bounds the memory of this process, and how much of each bound is still to be had: the
// machine, the control groups that it is in (Linux cgroup v2 or v1, so a container's limit), and
// its own limits of addresses and of data (`ulimit -v`, `ulimit -d`). For who plans to fill them;
// how much there is in all, `host_memory` (memory/host_memory.h) says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::memory {

struct MemoryBound {
  std::string name;       ///< "the machine", "the control group /a", "ulimit -v"
  int64_t limit = 0;      ///< bytes
  int64_t available = 0;  ///< of these, what nobody holds now that would not be given back
  /// It bounds addresses, which count whether they are used or not: those of stacks, for one.
  bool of_addresses = false;
};

/// All that there are, the machine first. Files are read below `root`, "" for those of the system;
/// a bound whose files are missing or unreadable is none. What the kernel keeps of files is
/// available: it gives that back before it kills.
std::vector<MemoryBound> memory_bounds(const std::string& root = "");

/// Addresses that a thread takes beside what it uses: its stack, and a heap of its own, which the
/// C library sets 64 MiB aside for.
int64_t thread_addresses();

}  // namespace brim::memory
