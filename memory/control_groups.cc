#include "brim/memory/control_groups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "brim/memory/source.h"

namespace brim::memory {
namespace {

/// Nothing where the file says "max", or is not there.
std::optional<int64_t> number_in(const std::string& file) {
  int64_t number = 0;
  if (std::ifstream(file) >> number && number >= 0) return number;
  return {};
}

struct Hierarchy {
  std::string folder, limit, throttle, used;  // files, with a slash before
};
const Hierarchy kV1{"/memory", "/memory.limit_in_bytes", "", "/memory.usage_in_bytes"};
// Above memory.high a process is slowed down until it stands nearly still.
const Hierarchy kV2{"", "/memory.max", "/memory.high", "/memory.current"};

/// For v1 no limit is the largest number of pages that there is.
constexpr int64_t kNoLimit = int64_t{1} << 60;

void add_group(std::vector<ControlGroup>& groups, const Hierarchy& files, const std::string& path,
               const std::string& root) {
  ControlGroup group{.name = path.empty() ? "/" : path,
                     .folder = root + files.folder + path,
                     .limit = Source::kUnlimited};
  for (const std::string& file : {files.limit, files.throttle})
    if (const auto limit = file.empty() ? std::nullopt : number_in(group.folder + file);
        limit && *limit > 0 && *limit < kNoLimit)
      group.limit = std::min(group.limit, *limit);
  group.used = number_in(group.folder + files.used).value_or(0);
  groups.push_back(std::move(group));
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& membership, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:/path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const Hierarchy& files = controllers.empty() ? kV2 : kV1;
    std::string path = line.substr(second + 1);
    // In a container the root is often the group itself, and the path has no folder here.
    while (!path.empty() && path != "/") {
      add_group(groups, files, path, root);
      const size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
    add_group(groups, files, "", root);
  }
  return groups;
}

}  // namespace brim::memory
