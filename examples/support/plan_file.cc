#include "brim/examples/support/plan_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "brim/data/read_file.h"
#include "brim/io/atomic_file.h"
#include "brim/memory/plan/plan_json.h"
#include "brim/memory/trace_json.h"

namespace brim::examples {
namespace {

using Json = nlohmann::json;

constexpr const char* kTag = "plan";
constexpr int64_t kLargest = int64_t{1} << 30;  // of a file; ResNet-152's has some megabytes
constexpr std::string_view kFates = "krmo";     // by number

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

std::string to_text(const KeptChoice& choice) {
  Json calls = Json::array();
  if (choice.recompute.fates)
    for (const auto& call : *choice.recompute.fates) {
      std::string text;
      for (memory::Fate fate : call) text += kFates[static_cast<size_t>(fate)];
      calls.push_back(text);
    }
  return Json{{"question", choice.question},
              {"name", choice.recompute.fates ? choice.recompute.name : ""},
              {"fates", calls},
              {"dropped", choice.dropped},
              {"offloaded", choice.offloaded},
              {"wait_seconds", choice.recompute.wait_seconds}}
      .dump();
}

autograd::Fates fates_from(const Json& calls) {
  autograd::Fates fates;
  for (const Json& call : calls) {
    auto& of_call = fates.emplace_back();
    for (char letter : call.get<std::string>()) {
      const size_t number = kFates.find(letter);
      expect<FileError>(number < kFates.size(), kTag, "expected a fate of {}, got '{}'", kFates,
                        letter);
      of_call.push_back(static_cast<memory::Fate>(number));
    }
  }
  return fates;
}

KeptChoice choice_from(const Json& json) {
  KeptChoice choice{.question = json.at("question"),
                    .dropped = json.at("dropped"),
                    .offloaded = json.at("offloaded")};
  const std::string name = json.at("name");
  const double wait_seconds = name.empty() ? 0.0 : json.at("wait_seconds").get<double>();
  expect<FileError>(choice.dropped >= 0 && choice.offloaded >= 0 && wait_seconds >= 0 &&
                        std::isfinite(wait_seconds),
                    kTag, "what is recomputed is damaged: {} dropped, {} offloaded, {} s of waits",
                    choice.dropped, choice.offloaded, wait_seconds);
  if (name.empty()) return choice;
  choice.recompute = planned_recomputation(
      std::make_shared<autograd::Fates>(fates_from(json.at("fates"))), wait_seconds);
  expect<FileError>(choice.recompute.name == name, kTag,
                    "what is recomputed is damaged: it says {}, and is {}", name,
                    choice.recompute.name);
  return choice;
}

}  // namespace

void save_plan(const std::string& path, const TrainingPlan& plan,
               const std::optional<KeptChoice>& choice) {
  io::write_file(path,
                 memory::to_json(*plan.plan) + "\n" + memory::to_json(plan.trace) + "\n" +
                     (choice ? to_text(*choice) + "\n" : ""),
                 kTag);
}

TrainingPlan load_plan(const std::string& path, const std::string& identity) {
  const Lines lines = read_lines(path);
  try {
    TrainingPlan result;
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
    const Json json = Json::parse(line);
    if (json.at("question") != question) return {};
    return choice_from(json);
  } catch (const Json::exception& error) {
    raise<FileError>(kTag, "'{}': what is recomputed is damaged: {}", path, error.what());
  }
}

}  // namespace brim::examples
