#include "brim/examples/support/plan_file.h"

#include <algorithm>
#include <string_view>

#include "brim/data/read_file.h"
#include "brim/io/atomic_file.h"
#include "brim/memory/plan/plan_json.h"
#include "brim/memory/trace_json.h"

namespace brim::examples {
namespace {

constexpr const char* kTag = "plan";
constexpr int64_t kLargest = int64_t{1} << 30;  // of a file; ResNet-152's has some megabytes

}  // namespace

void save_plan(const std::string& path, const TrainingPlan& plan) {
  io::write_file(path, memory::to_json(*plan.plan) + "\n" + memory::to_json(plan.trace) + "\n",
                 kTag);
}

TrainingPlan load_plan(const std::string& path, const std::string& identity) {
  std::vector<uint8_t> bytes = data::read_file(path, kLargest);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t line = std::min(text.find('\n'), text.size());
  try {
    TrainingPlan result;
    memory::Plan plan = memory::plan_from_json(text.substr(0, line), identity);
    result.trace = memory::trace_from_json(text.substr(line));
    result.predicted = memory_of(plan);
    result.plan = std::make_shared<memory::Plan>(std::move(plan));
    return result;
  } catch (const Error& error) {
    raise<FileError>(kTag, "'{}': {}", path, error.what());
  }
}

}  // namespace brim::examples
