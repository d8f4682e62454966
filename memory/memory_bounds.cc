#include "brim/memory/memory_bounds.h"

#include <pthread.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "brim/memory/control_groups.h"
#include "brim/memory/proc_numbers.h"
#include "brim/memory/source.h"

namespace brim::memory {
namespace {

std::optional<int64_t> number_of(const std::map<std::string, int64_t>& numbers,
                                 const std::string& name) {
  const auto found = numbers.find(name);
  if (found == numbers.end()) return {};
  return found->second;
}

void add_machine(std::vector<MemoryBound>& bounds, const std::string& root) {
  const auto numbers = proc_numbers(root + "/proc/meminfo");
  const std::optional<int64_t> total = number_of(numbers, "MemTotal");
  if (!total) return;
  bounds.push_back({"the machine", *total, number_of(numbers, "MemAvailable").value_or(*total)});
}

void add_groups(std::vector<MemoryBound>& bounds, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  const std::string membership{std::istreambuf_iterator<char>(file), {}};
  for (const ControlGroup& group : control_groups(membership, root + "/sys/fs/cgroup")) {
    if (group.limit >= Source::kUnlimited) continue;
    const auto stat = proc_numbers(group.folder + "/memory.stat");
    // In v1 the numbers without "total_" leave out groups below.
    const std::string of_all = stat.contains("total_inactive_file") ? "total_" : "";
    const int64_t files = number_of(stat, of_all + "inactive_file").value_or(0) +
                          number_of(stat, of_all + "active_file").value_or(0);
    const int64_t held = std::max<int64_t>(group.used - files, 0);
    bounds.push_back(
        {"the control group " + group.name, group.limit, std::max<int64_t>(group.limit - held, 0)});
  }
}

/// "Max address space   unlimited   unlimited   bytes": the first of the two is in force.
std::optional<int64_t> soft_limit(const std::string& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    int64_t bytes = 0;
    std::istringstream words(line.substr(name.size()));
    if (words >> bytes) return bytes;
  }
  return {};
}

void add_limits(std::vector<MemoryBound>& bounds, const std::string& root) {
  const auto status = proc_numbers(root + "/proc/self/status");
  const std::string file = root + "/proc/self/limits";
  auto add = [&](const std::string& limit, const std::string& held, const std::string& name) {
    const std::optional<int64_t> most = soft_limit(file, limit);
    if (!most) return;
    const int64_t room = *most - number_of(status, held).value_or(0);
    bounds.push_back({name, *most, std::max<int64_t>(room, 0), /*of_addresses=*/true});
  };
  add("Max address space", "VmSize", "ulimit -v");
  add("Max data size", "VmData", "ulimit -d");
}

}  // namespace

std::vector<MemoryBound> memory_bounds(const std::string& root) {
  std::vector<MemoryBound> bounds;
  add_machine(bounds, root);
  add_groups(bounds, root);
  add_limits(bounds, root);
  return bounds;
}

int64_t thread_addresses() {
  constexpr int64_t kHeap = int64_t{64} << 20;  // HEAP_MAX_SIZE of glibc's malloc
  size_t stack = size_t{8} << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_destroy(&attributes);
  }
  return kHeap + static_cast<int64_t>(stack);
}

}  // namespace brim::memory
