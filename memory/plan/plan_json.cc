#include "brim/memory/plan/plan_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/json_text.h"
#include "brim/memory/plan/check_plan.h"

namespace brim::memory {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "brim plan";
constexpr int64_t kVersion = 1;
constexpr const char* kKinds[] = {"first_micro_step", "micro_step", "update", "evaluation",
                                  "other"};
constexpr const char* kPhases[] = {"other", "forward", "backward", "update", "recompute"};
static_assert(std::size(kPhases) == kPhaseCount);

Json section_json(const Section& section) {
  return {kKinds[static_cast<size_t>(section.kind)], section.samples};
}

Json section_json(const PlannedSection& section) {
  Json nested = Json::array(), requests = Json::array();
  for (const Section& inner : section.nested) nested.push_back(section_json(inner));
  for (const PlannedRequest& r : section.requests)
    requests.push_back({r.bytes, r.offset, r.death, r.site, r.begins_run ? 1 : 0});
  return {{"section", section_json(section.section)},
          {"nested", std::move(nested)},
          {"preamble", section.preamble},
          {"peak_live", section.peak_live},
          {"requests", std::move(requests)}};
}

// ---- Reading. `where` is what a message says of the value.

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  raise<FileError>("plan", "{}", fmt::format(text, std::forward<Args>(args)...));
}

const Json& field(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) refuse("there is no '{}'", name);
  return object[name];
}

const Json::array_t& array(const Json& value, const char* where) {
  if (!value.is_array()) refuse("'{}' is not a list", where);
  return value.get_ref<const Json::array_t&>();
}

const Json::array_t& row(const Json& value, size_t size, const char* where) {
  const Json::array_t& values = array(value, where);
  if (values.size() != size)
    refuse("expected {} values in each of '{}', got {}", size, where, values.size());
  return values;
}

const std::string& text(const Json& value, const char* where) {
  if (!value.is_string()) refuse("'{}' has no text where there should be some", where);
  return value.get_ref<const std::string&>();
}

int64_t number(const Json& value, int64_t least, int64_t most, const char* where) {
  bool fits = value.is_number_integer() &&
              (!value.is_number_unsigned() ||
               value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits) refuse("'{}' has no whole number where there should be one", where);
  auto got = value.get<int64_t>();
  if (got < least || got > most)
    refuse("expected a number from {} to {} in '{}', got {}", least, most, where, got);
  return got;
}

int64_t size(const Json& object, const char* name) {
  return number(field(object, name), 0, kMostBytes, name);
}

template <class Names>
size_t one_of(const Json& value, const Names& names, const char* where) {
  const std::string& name = text(value, where);
  auto found = std::ranges::find(names, name);
  if (found == std::end(names)) refuse("'{}' is not known in '{}'", name, where);
  return static_cast<size_t>(found - std::begin(names));
}

Section read_section(const Json& value) {
  const Json::array_t& values = row(value, 2, "section");
  return {static_cast<SectionKind>(one_of(values[0], kKinds, "section")),
          number(values[1], 0, kMostBytes, "section")};
}

PlannedRequest read_request(const Json& value, int64_t sites) {
  const Json::array_t& values = row(value, 5, "requests");
  constexpr int64_t kMostRequests = std::numeric_limits<int32_t>::max();
  return {.bytes = number(values[0], 1, kMostBytes, "requests"),
          .offset = number(values[1], -1, kMostBytes, "requests"),
          .death = number(values[2], 0, kMostRequests, "requests"),
          .site = static_cast<int32_t>(number(values[3], 0, sites - 1, "requests")),
          .begins_run = number(values[4], 0, 1, "requests") == 1};
}

PlannedSection read_planned_section(const Json& value, int64_t sites) {
  PlannedSection section{.section = read_section(field(value, "section"))};
  for (const Json& inner : array(field(value, "nested"), "nested"))
    section.nested.push_back(read_section(inner));
  for (const Json& request : array(field(value, "requests"), "requests"))
    section.requests.push_back(read_request(request, sites));
  section.preamble = number(field(value, "preamble"), 0,
                            static_cast<int64_t>(section.requests.size()), "preamble");
  section.peak_live = size(value, "peak_live");
  return section;
}

PlannedProgram read_program(const Json& value, int64_t sites) {
  const Json& step = field(value, "step");
  if (!step.is_boolean()) refuse("'step' is neither true nor false");
  PlannedProgram program{.step = step.get<bool>(), .top = size(value, "top")};
  for (const Json& section : array(field(value, "sections"), "sections"))
    program.sections.push_back(read_planned_section(section, sites));
  return program;
}

/// "batch 8", "in place true": what stands between commas or semicolons.
std::vector<std::string_view> settings_in(std::string_view identity) {
  std::vector<std::string_view> settings;
  for (size_t begin = 0; begin <= identity.size();) {
    const size_t end = std::min(identity.find_first_of(",;", begin), identity.size());
    const size_t text = std::min(identity.find_first_not_of(' ', begin), end);
    settings.push_back(identity.substr(text, end - text));
    begin = end + 1;
  }
  return settings;
}

// Identities are long, and mostly alike: only what differs is named, where they can be compared.
[[noreturn]] void refuse_question(std::string_view wanted, std::string_view got) {
  std::vector<std::string_view> expected = settings_in(wanted), there = settings_in(got);
  if (expected.size() != there.size()) expected = {wanted}, there = {got};
  for (size_t i = expected.size(); i-- > 0;)
    if (expected[i] == there[i] && expected.size() > 1) {
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(i));
      there.erase(there.begin() + static_cast<ptrdiff_t>(i));
    }
  refuse("it answers another question: expected '{}', got '{}'", fmt::join(expected, ", "),
         fmt::join(there, ", "));
}

Plan read_plan(const Json& value) {
  Plan plan{.identity = text(field(value, "identity"), "identity"),
            .arena_bytes = size(value, "arena_bytes"),
            .lower_bound = size(value, "lower_bound"),
            .kept_bytes = size(value, "kept_bytes")};
  const Json::array_t& at_peak = row(field(value, "at_peak"), kCategories, "at_peak");
  for (size_t i = 0; i < kCategories; ++i)
    plan.at_peak[i] = number(at_peak[i], 0, kMostBytes, "at_peak");
  for (const Json& kept : array(field(value, "kept"), "kept")) {
    const Json::array_t& values = row(kept, 3, "kept");
    plan.kept.push_back({.bytes = number(values[0], 1, kMostBytes, "kept"),
                         .count = number(values[1], 1, kMostBytes, "kept"),
                         .offset = number(values[2], 0, kMostBytes, "kept")});
  }
  for (const Json& site : array(field(value, "sites"), "sites")) {
    const Json::array_t& values = row(site, 3, "sites");
    plan.sites.push_back({text(values[0], "sites"), text(values[1], "sites"),
                          static_cast<Phase>(one_of(values[2], kPhases, "sites"))});
  }
  auto sites = static_cast<int64_t>(plan.sites.size());
  for (const Json& program : array(field(value, "programs"), "programs"))
    plan.programs.push_back(read_program(program, sites));
  return plan;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json kept = Json::array(), sites = Json::array(), programs = Json::array();
  for (const KeptPlaces& places : plan.kept)
    kept.push_back({places.bytes, places.count, places.offset});
  for (const PlannedSite& site : plan.sites)
    sites.push_back({site.op, site.module, kPhases[static_cast<size_t>(site.phase)]});
  for (const PlannedProgram& program : plan.programs) {
    Json sections = Json::array();
    for (const PlannedSection& section : program.sections)
      sections.push_back(section_json(section));
    programs.push_back(
        {{"step", program.step}, {"top", program.top}, {"sections", std::move(sections)}});
  }
  Json json{{"format", kFormat},
            {"version", kVersion},
            {"identity", plan.identity},
            {"arena_bytes", plan.arena_bytes},
            {"lower_bound", plan.lower_bound},
            {"at_peak", plan.at_peak},
            {"kept_bytes", plan.kept_bytes},
            {"kept", std::move(kept)},
            {"sites", std::move(sites)},
            {"programs", std::move(programs)}};
  return json_text(std::move(json));
}

Plan plan_from_json(std::string_view text, std::string_view identity) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    refuse("the text ends early or is no JSON, at byte {}", error.byte);
  } catch (const Json::out_of_range&) {
    refuse("there is a number that no double holds");
  }
  if (const Json& format = field(json, "format"); format != kFormat)
    refuse("the format is not '{}'", kFormat);
  if (int64_t version = number(field(json, "version"), 0, kMostBytes, "version");
      version != kVersion)
    refuse("expected version {}, got {}", kVersion, version);
  Plan plan = read_plan(json);
  if (plan.identity != escaped_utf8(identity)) refuse_question(identity, plan.identity);
  check_plan(plan);
  return plan;
}

}  // namespace brim::memory
