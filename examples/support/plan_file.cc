#include "brim/examples/support/plan_file.h"

#include <nlohmann/json.hpp>

#include "brim/io/atomic_file.h"
#include "brim/io/input_file.h"
#include "brim/memory/plan/plan_json.h"
#include "brim/memory/trace_json.h"

namespace brim::examples {
namespace {

constexpr const char* kTag = "plan";
constexpr int64_t kLargest = int64_t{1} << 30;  // of a file; ResNet-152's has some megabytes

std::string read_text(const std::string& path) {
  io::InputFile file(path, kTag);
  expect<FileError>(file.size() <= kLargest, kTag, "'{}' has {} bytes, too many for a plan", path,
                    file.size());
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

void save_plan(const std::string& path, const TrainingPlan& plan) {
  std::string text = R"({"plan":)" + memory::to_json(*plan.plan) + R"(,"trace":)" +
                     memory::to_json(plan.trace) + "}\n";
  io::AtomicFile file(path, kTag);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

std::shared_ptr<const memory::Plan> load_plan(const std::string& path,
                                              const std::string& identity) {
  try {
    nlohmann::json file = nlohmann::json::parse(read_text(path));
    return std::make_shared<memory::Plan>(memory::plan_from_json(file.at("plan").dump(), identity));
  } catch (const nlohmann::json::exception& error) {
    raise<FileError>(kTag, "'{}' is no plan: {}", path, error.what());
  } catch (const Error& error) {
    raise<FileError>(kTag, "'{}': {}", path, error.what());
  }
}

}  // namespace brim::examples
