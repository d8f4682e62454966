#include "brim/train/speed_file.h"

#include <cmath>
#include <fstream>

#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/io/kept_json.h"
#include "brim/ops/library_version.h"

namespace brim {
namespace {

using Json = nlohmann::json;

constexpr KeptJson kKept{.tag = "op times", .what = "op times", .version = 2};
// Raised when kernels, probes or what is made of them change enough to measure again.
constexpr int kRevision = 2;
constexpr double kMost = 1e20;  // of rates and seconds
constexpr int kMostRounds = 1000;

Json json_of(const Machine& machine) {
  return {{"processor", machine.processor},
          {"instructions", machine.instructions},
          {"build", machine.build},
          {"threads", machine.threads}};
}

Json json_of(const MeasuredSpeed& measured) {
  const DeviceSpeed& speed = measured.speed;
  Json ops = Json::object();
  for (const auto& [name, rates] : speed.of_ops)
    ops[name] = {rates.flops_per_second, rates.bytes_per_second};
  return {{"flops_per_second", speed.flops_per_second},
          {"bytes_per_second", speed.bytes_per_second},
          {"seconds_per_op", speed.seconds_per_op},
          {"rounds", measured.rounds},
          {"spread", measured.spread},
          {"ops", std::move(ops)}};
}

// ---- Reading.

double number(const Json& value, const char* where) {
  if (!value.is_number()) kKept.refuse("'{}' is not a number", where);
  const auto got = value.get<double>();
  if (!(got > 0 && got <= kMost))
    kKept.refuse("expected a number above 0 in '{}', got {}", where, got);
  return got;
}

double spread_in(const Json& body) {
  const Json& spread = kKept.field(body, "spread");
  return spread == 0.0 ? 0 : number(spread, "spread");
}

MeasuredSpeed read_speed(const Json& body) {
  auto of = [&](const char* name) { return number(kKept.field(body, name), name); };
  DeviceSpeed speed{.flops_per_second = of("flops_per_second"),
                    .bytes_per_second = of("bytes_per_second"),
                    .seconds_per_op = of("seconds_per_op")};
  const Json& ops = kKept.field(body, "ops");
  if (!ops.is_object()) kKept.refuse("'ops' is not an object");
  for (const auto& [name, rates] : ops.items()) {
    if (!rates.is_array() || rates.size() != 2) kKept.refuse("'{}' has not two rates", name);
    speed.of_ops[name] = {number(rates[0], "ops"), number(rates[1], "ops")};
  }
  const double rounds = of("rounds");
  if (rounds > kMostRounds || rounds != std::floor(rounds))
    kKept.refuse("expected whole 'rounds' up to {}, got {}", kMostRounds, rounds);
  return {std::move(speed), static_cast<int>(rounds), spread_in(body)};
}

void require_machine(const Json& kept, const Machine& machine) {
  const Json now = json_of(machine);
  for (const auto& [name, value] : now.items())
    if (const Json& other = kKept.field(kept, name.c_str()); other != value)
      kKept.refuse("it is of another machine or build: {} {}, where there is {} now", name,
                   other.dump(), value.dump());
}

// ---- The machine.

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Machine this_machine() {
  std::string build =
      fmt::format("revision {}, compiler {}, {}", kRevision, __VERSION__, library_version());
#ifndef __OPTIMIZE__
  build += ", not optimized";
#endif
  return {.processor = processor_name(),
          .instructions = std::string(to_string(instructions())),
          .build = build,
          .threads = num_threads()};
}

std::string to_text(const MeasuredSpeed& speed, const Machine& machine) {
  Json body = json_of(speed);
  body["machine"] = json_of(machine);
  return kKept.to_text(body);
}

MeasuredSpeed speed_from(std::string_view text, const Machine& machine) {
  const Json kept = kKept.body_of(text);
  require_machine(kKept.field(kept, "machine"), machine);
  MeasuredSpeed speed = read_speed(kept);
  if (to_text(speed, machine) != text) kKept.refuse("it is damaged: it is not as it was written");
  return speed;
}

}  // namespace brim
