#include "brim/memory/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "brim/memory/source.h"

namespace brim::memory {
namespace {

// What the file says, which may be "max", or no limit where there is no such file.
int64_t limit_in(const std::string& file) {
  int64_t bytes = 0;
  return std::ifstream(file) >> bytes && bytes > 0 ? bytes : Source::kUnlimited;
}

}  // namespace

int64_t control_group_limit(const std::string& membership, const std::string& root) {
  int64_t least = Source::kUnlimited;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:/path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    bool v2 = controllers.empty();
    if (!v2 && controllers != "memory") continue;
    std::string folder = root + (v2 ? "" : "/memory");
    std::string name = v2 ? "/memory.max" : "/memory.limit_in_bytes";
    std::string path = line.substr(second + 1);
    // In a container the root is often the group itself, and the path has no folder here.
    while (!path.empty() && path != "/") {
      least = std::min(least, limit_in(folder + path + name));
      size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
    least = std::min(least, limit_in(folder + name));
  }
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
  ResidentMemory memory;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {  // "VmRSS:     1234 kB"
    std::istringstream words(line);
    std::string name;
    int64_t kibibytes = 0;
    words >> name >> kibibytes;
    if (name == "VmRSS:") memory.now = kibibytes * 1024;
    if (name == "VmHWM:") memory.peak = kibibytes * 1024;
  }
  // Not every container has VmHWM. What getrusage says may be of the program that started this one.
  rusage usage{};
  if (memory.peak == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
    memory.peak = int64_t{usage.ru_maxrss} * 1024;
  memory.peak = std::max(memory.peak, memory.now);  // the kernel's counts lag by some pages
  return memory;
}

}  // namespace brim::memory
