// The control groups (Linux cgroup v2 or v1) that bound the memory of a process, read from their
// files. For memory/host_memory.h and memory/memory_bounds.h, which say what follows from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::memory {

struct ControlGroup {
  std::string name, folder;  ///< "/a/b", and where its files are
  int64_t limit = 0;         ///< bytes; `Source::kUnlimited` for none
  int64_t used = 0;          ///< bytes that all processes in it hold, files in memory included
};

/// The groups that `membership` (the text of /proc/self/cgroup) names and those above them, below
/// `root` (/sys/fs/cgroup); one whose files are not there has no limit.
std::vector<ControlGroup> control_groups(const std::string& membership, const std::string& root);

}  // namespace brim::memory
