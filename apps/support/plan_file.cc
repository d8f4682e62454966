#include "brim/apps/support/plan_file.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "brim/data/read_file.h"
#include "brim/io/atomic_file.h"
#include "brim/memory/plan/plan_json.h"
#include "brim/memory/trace_json.h"

namespace brim::apps {
namespace {

constexpr const char* kTag = "plan";
constexpr int64_t kLargest = int64_t{1} << 30;  // of a file; ResNet-152's has some megabytes

struct Lines {
  std::string text;
  std::string_view line(int number) const {
    std::string_view rest = text;
    for (; number > 0; --number) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    return rest.substr(0, rest.find('\n'));
  }
};

Lines read_lines(const std::string& path) {
  const std::vector<uint8_t> bytes = data::read_file(path, kLargest);
  return {std::string(bytes.begin(), bytes.end())};
}

}  // namespace

void save_plan(const std::string& path, const RehearsedPlan& plan,
               const std::optional<KeptChoice>& choice, const std::string& engines) {
  std::string lines = memory::to_json(*plan.plan) + "\n" + memory::to_json(plan.trace) + "\n";
  if (choice) lines += to_text(*choice);
  if (choice || !engines.empty()) lines += "\n";
  io::write_file(path, lines + engines, kTag);
}

RehearsedPlan load_plan(const std::string& path, const std::string& identity) {
  const Lines lines = read_lines(path);
  try {
    RehearsedPlan result;
    memory::Plan plan = memory::plan_from_json(lines.line(0), identity);
    result.trace = memory::trace_from_json(lines.line(1));
    result.predicted = memory_of(plan);
    result.plan = std::make_shared<memory::Plan>(std::move(plan));
    return result;
  } catch (const Error& error) {
    raise<FileError>(kTag, "'{}': {}", path, error.what());
  }
}

std::optional<KeptChoice> load_choice(const std::string& path, const std::string& question) {
  const Lines lines = read_lines(path);
  const std::string_view line = lines.line(2);
  if (line.empty()) return {};
  try {
    return kept_choice_from(line, question);
  } catch (const FileError& error) {
    raise<FileError>(kTag, "'{}': {}", path, error.what());
  }
}

std::string load_engines(const std::string& path) {
  const Lines lines = read_lines(path);
  if (lines.line(3).empty()) return "";
  return fmt::format("{}\n{}\n", lines.line(3), lines.line(4));
}

}  // namespace brim::apps
