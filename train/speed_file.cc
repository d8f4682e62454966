#include "brim/train/speed_file.h"

#include <link.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "brim/base/error.h"
#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/io/checksum.h"

namespace brim {
namespace {

using Json = nlohmann::json;

constexpr const char* kTag = "op times";
constexpr const char* kFormat = "brim op times";
constexpr int kVersion = 2;
// Raised when kernels, probes or what is made of them change enough to measure again.
constexpr int kRevision = 1;
constexpr double kMost = 1e20;  // of rates and seconds
constexpr int kMostRounds = 1000;

uint64_t sum_of(std::string_view text) {
  io::Checksum sum;
  sum.add(text);
  return sum.value();
}

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  raise<FileError>(kTag, "{}", fmt::format(text, std::forward<Args>(args)...));
}

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

Json parse(std::string_view text) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) refuse("it is not JSON");
  return value;
}

const Json& field(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) refuse("there is no '{}'", name);
  return object[name];
}

double number(const Json& value, const char* where) {
  if (!value.is_number()) refuse("'{}' is not a number", where);
  const auto got = value.get<double>();
  if (!(got > 0 && got <= kMost)) refuse("expected a number above 0 in '{}', got {}", where, got);
  return got;
}

double spread_in(const Json& body) {
  const Json& spread = field(body, "spread");
  return spread == 0.0 ? 0 : number(spread, "spread");
}

MeasuredSpeed read_speed(const Json& body) {
  auto of = [&](const char* name) { return number(field(body, name), name); };
  DeviceSpeed speed{.flops_per_second = of("flops_per_second"),
                    .bytes_per_second = of("bytes_per_second"),
                    .seconds_per_op = of("seconds_per_op")};
  const Json& ops = field(body, "ops");
  if (!ops.is_object()) refuse("'ops' is not an object");
  for (const auto& [name, rates] : ops.items()) {
    if (!rates.is_array() || rates.size() != 2) refuse("'{}' has not two rates", name);
    speed.of_ops[name] = {number(rates[0], "ops"), number(rates[1], "ops")};
  }
  const double rounds = of("rounds");
  if (rounds > kMostRounds || rounds != std::floor(rounds))
    refuse("expected whole 'rounds' up to {}, got {}", kMostRounds, rounds);
  return {std::move(speed), static_cast<int>(rounds), spread_in(body)};
}

void require_head(const Json& head, std::string_view body) {
  const Json& format = field(head, "format");
  if (format != kFormat) refuse("it is no file of op times");
  const Json& version = field(head, "version");
  if (version != kVersion)
    refuse("it is of version {}, and this reads version {}", version.dump(), kVersion);
  if (field(head, "checksum") != sum_of(body)) refuse("it is damaged: its checksum is wrong");
}

void require_machine(const Json& kept, const Machine& machine) {
  const Json now = json_of(machine);
  for (const auto& [name, value] : now.items())
    if (const Json& other = field(kept, name.c_str()); other != value)
      refuse("it is of another machine or build: {} {}, where there is {} now", name, other.dump(),
             value.dump());
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

/// File names of the loaded libraries that compute: "libdnnl.so.2.6".
std::set<std::string> computing_libraries() {
  std::set<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        std::error_code error;
        const auto path = std::filesystem::canonical(info->dlpi_name, error);
        const std::string name = error ? "" : path.filename().string();
        for (const char* known : {"libdnnl", "libgomp"})
          if (name.starts_with(known)) static_cast<std::set<std::string>*>(into)->insert(name);
        return 0;
      },
      &names);
  return names;
}

}  // namespace

Machine this_machine() {
  std::string build = fmt::format("revision {}, compiler {}", kRevision, __VERSION__);
#ifndef __OPTIMIZE__
  build += ", not optimized";
#endif
  for (const std::string& name : computing_libraries()) build += ", " + name;
  return {.processor = processor_name(),
          .instructions = std::string(to_string(instructions())),
          .build = build,
          .threads = num_threads()};
}

std::string to_text(const MeasuredSpeed& speed, const Machine& machine) {
  Json body = json_of(speed);
  body["machine"] = json_of(machine);
  const std::string line = body.dump();
  const Json head{{"format", kFormat}, {"version", kVersion}, {"checksum", sum_of(line)}};
  return head.dump() + "\n" + line + "\n";
}

MeasuredSpeed speed_from(std::string_view text, const Machine& machine) {
  const size_t end = text.find('\n');
  if (end == text.npos || !text.ends_with('\n') || end + 1 == text.size())
    refuse("it is damaged: expected two lines");
  const std::string_view body = text.substr(end + 1, text.size() - end - 2);
  require_head(parse(text.substr(0, end)), body);
  const Json kept = parse(body);
  require_machine(field(kept, "machine"), machine);
  MeasuredSpeed speed = read_speed(kept);
  if (to_text(speed, machine) != text) refuse("it is damaged: it is not as it was written");
  return speed;
}

}  // namespace brim
