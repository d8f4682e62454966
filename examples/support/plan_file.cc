#include "brim/examples/support/plan_file.h"

#include <nlohmann/json.hpp>

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
  io::write_file(path,
                 R"({"plan":)" + memory::to_json(*plan.plan) + R"(,"trace":)" +
                     memory::to_json(plan.trace) + "}\n",
                 kTag);
}

std::shared_ptr<const memory::Plan> load_plan(const std::string& path,
                                              const std::string& identity) {
  std::vector<uint8_t> bytes = data::read_file(path, kLargest);
  try {
    nlohmann::json file = nlohmann::json::parse(bytes);
    return std::make_shared<memory::Plan>(memory::plan_from_json(file.at("plan").dump(), identity));
  } catch (const nlohmann::json::exception& error) {
    raise<FileError>(kTag, "'{}' is no plan: {}", path, error.what());
  } catch (const Error& error) {
    raise<FileError>(kTag, "'{}': {}", path, error.what());
  }
}

}  // namespace brim::examples
