#include "brim/train/engine_file.h"

#include <filesystem>
#include <iostream>

#include "brim/io/atomic_file.h"
#include "brim/io/input_file.h"
#include "brim/io/kept_json.h"
#include "brim/ops/cuda/engine_kind.h"

namespace brim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr KeptJson kKept{.tag = "engines", .what = "engines", .version = 1};
constexpr int64_t kMostBytes = int64_t{16} << 20;  // of a file; an engine has some 200
constexpr size_t kMostKnobs = 256;

Json json_of(const EngineChoice& choice) {
  Json knobs = Json::array();
  for (const EngineKnob& knob : choice.knobs) knobs.push_back({knob.type, knob.value});
  return {{"engine", choice.engine},
          {"knobs", std::move(knobs)},
          {"workspace", choice.workspace},
          {"timed", choice.timed}};
}

// ---- Reading.

int64_t whole(const Json& value, const char* what) {
  if (!value.is_number_integer()) kKept.refuse("'{}' is not a whole number", what);
  return value.get<int64_t>();
}

/// From 0.
int64_t count(const Json& value, const char* what) {
  const int64_t number = whole(value, what);
  if (number < 0) kKept.refuse("expected a number from 0 in '{}', got {}", what, number);
  return number;
}

EngineChoice choice_from(const Json& json) {
  EngineChoice choice{.engine = count(kKept.field(json, "engine"), "engine"),
                      .workspace = count(kKept.field(json, "workspace"), "workspace")};
  const Json& timed = kKept.field(json, "timed");
  if (!timed.is_boolean()) kKept.refuse("'timed' is neither true nor false");
  choice.timed = timed;
  const Json& knobs = kKept.field(json, "knobs");
  if (!knobs.is_array() || knobs.size() > kMostKnobs)
    kKept.refuse("'knobs' is no list of up to {} pairs", kMostKnobs);
  for (const Json& knob : knobs) {
    if (!knob.is_array() || knob.size() != 2) kKept.refuse("'knobs' is no list of pairs");
    choice.knobs.push_back({count(knob[0], "knobs"), whole(knob[1], "knobs")});
  }
  return choice;
}

std::string read_all(const std::string& path) {
  io::InputFile file(path, kKept.tag);
  if (file.size() > kMostBytes) kKept.refuse("it has {} bytes, which is too much", file.size());
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string kind_for(Device gpu, const EngineFileOptions& options) {
  return options.kind.empty() ? engine_kind(gpu) : options.kind;
}

/// What the file at `path` has; nothing where there is none, or it cannot be taken.
EngineChoices read(const std::string& path, const std::string& kind,
                   const EngineFileOptions& options, const char* consequence) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  try {
    return engine_choices_from(read_all(path), kind);
  } catch (const FileError& refusal) {
    const std::string text = fmt::format("{} ('{}'); {}", refusal.what(), path, consequence);
    options.say ? options.say(text) : void(std::cerr << text << std::endl);
    return {};
  }
}

}  // namespace

std::string engine_kind(Device device) {
  return device.is_cuda() ? cuda::engine_kind(device) : std::string();
}

std::string to_text(const EngineChoices& choices, const std::string& kind) {
  Json engines = Json::object();
  for (const auto& [name, choice] : choices) engines[name] = json_of(choice);
  return kKept.to_text(Json{{"kind", kind}, {"engines", std::move(engines)}});
}

EngineChoices engine_choices_from(std::string_view text, const std::string& kind) {
  const Json kept = kKept.body_of(text);
  if (const Json& other = kKept.field(kept, "kind"); other != kind)
    kKept.refuse("it is of {}, where there is \"{}\" now", other.dump(), kind);
  const Json& engines = kKept.field(kept, "engines");
  if (!engines.is_object()) kKept.refuse("'engines' is not an object");
  EngineChoices choices;
  for (const auto& [name, choice] : engines.items()) choices[name] = choice_from(choice);
  if (to_text(choices, kind) != text) kKept.refuse("it is damaged: it is not as it was written");
  return choices;
}

std::string engine_file(const std::string& kind, const std::string& folder) {
  std::string name;
  for (char c : kind) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain)
      name += c;
    else if (c >= 'A' && c <= 'Z')
      name += static_cast<char>(c - 'A' + 'a');
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  return fmt::format("{}/engines_{}.json", folder, name);
}

void take_up_engines(Device gpu, const EngineFileOptions& options) {
  const std::string kind = kind_for(gpu, options);
  if (kind.empty() || options.folder.empty()) return;
  engine_table(gpu).offer(
      read(engine_file(kind, options.folder), kind, options, "engines are chosen again"));
}

void keep_engines(Device gpu, const EngineFileOptions& options) {
  const std::string kind = kind_for(gpu, options);
  const EngineChoices choices = engine_table(gpu).lasting();
  if (kind.empty() || options.folder.empty() || choices.empty()) return;
  const std::string path = engine_file(kind, options.folder);
  const EngineChoices before = read(path, kind, options, "it is replaced");
  EngineChoices after = before;
  for (const auto& [name, choice] : choices) {
    auto [there, is_new] = after.insert({name, choice});
    // It was offered, and cuDNN would not have it.
    if (!is_new && engine_table(gpu).offered(name) == there->second) there->second = choice;
  }
  if (after == before) return;
  try {
    std::error_code error;
    fs::create_directories(options.folder, error);
    // Where that failed, this says why.
    io::write_file(path, to_text(after, kind), kKept.tag);
  } catch (const FileError& refusal) {
    const std::string text =
        fmt::format("{}; the next run chooses engines by itself", refusal.what());
    options.say ? options.say(text) : void(std::cerr << text << std::endl);
  }
}

}  // namespace brim
