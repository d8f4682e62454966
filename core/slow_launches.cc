#include "brim/core/slow_launches.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

namespace brim {
namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, int64_t> of;

  static Counts& get() {
    static auto* counts = new Counts;
    return *counts;
  }
};

}  // namespace

void note_slow_launch(std::string_view op, std::string_view way) {
  Counts& counts = Counts::get();
  std::lock_guard lock(counts.mutex);
  ++counts.of[{std::string(op), std::string(way)}];
}

std::vector<SlowLaunches> slow_launches() {
  Counts& counts = Counts::get();
  std::lock_guard lock(counts.mutex);
  std::vector<SlowLaunches> launches;
  for (const auto& [key, count] : counts.of) launches.push_back({key.first, key.second, count});
  return launches;
}

std::string to_string(const std::vector<SlowLaunches>& launches) {
  std::string text;
  for (const SlowLaunches& each : launches)
    text += fmt::format("{}{} {} in {} launch{}", text.empty() ? "" : ", ", each.op, each.way,
                        each.count, each.count == 1 ? "" : "es");
  return text;
}

}  // namespace brim
