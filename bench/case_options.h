// What benchmarks of a training share: flags that say which model at which size and how often, the
// main that plans variants of it and lets them take turns, a table with a row for each, and a file
// of results to which each run of a program adds a line of JSON.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/bench/recompute_variant.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"
#include "brim/nn/model_card.h"

namespace brim::bench {

using Json = nlohmann::json;

struct CaseOptions {
  TrainingShape shape;
  TurnOptions turns;
  std::string json;  ///< a file, or none
};

/// "224" or "416x608": height and width.
inline void set_size(TrainingShape& shape, const std::string& text) {
  const size_t by = text.find('x');
  const std::string height = text.substr(0, by);
  const std::string width = by == std::string::npos ? text : text.substr(by + 1);
  for (const std::string& side : {height, width})
    if (!apps::is_whole_number(side, 1, nn::ModelCard::kLargestSide))
      throw apps::FlagError(
          fmt::format("--size: expected 224 or 416x608, of 1 to {} pixels, got '{}'",
                      nn::ModelCard::kLargestSide, text));
  shape.height = std::stoll(height);
  shape.width = std::stoll(width);
}

inline void add_case_options(apps::App& app, CaseOptions& options) {
  using namespace apps;
  TrainingShape& shape = options.shape;
  TurnOptions& turns = options.turns;
  app.add_option("--model", shape.model, "of the registry, unet or unet_bilinear").shows_default();
  app.add_option(
      "--size", [&](const std::string& text) { set_size(shape, text); },
      "pixels, or height and width as in 416x608 [224]");
  app.add_option("--batch", shape.batch).check(whole_number(1, kMostImages)).shows_default();
  app.add_option("--classes", shape.classes, "[1000; of U-Net 2]")
      .check(whole_number(1, kMostClasses));
  app.add_option("--rounds", turns.rounds, "0: plan, and run nothing")
      .check(whole_number(0))
      .shows_default();
  app.add_option(
         "--memory", [&](const std::string& text) { turns.memory = parse_bytes(text); },
         fmt::format("for what takes turns with each other [{}]", format_bytes(turns.memory)))
      .check(byte_size(1));
  app.add_option(
         "--threads", [](const std::string& text) { set_num_threads(std::stoi(text)); },
         "of the kernels")
      .type_name("INT")
      .check(thread_count());
  app.add_option("--json", options.json, "file to which a line of JSON is added");
}

/// The main of a program whose `Options` have a `CaseOptions measured`: what `variants_of(options)`
/// gives takes turns, and `report(options, variants, turns)` says what came out.
template <class Options, class Plan, class Report>
int run_case(apps::App& app, int argc, char** argv, const Options& options,
             const Plan& variants_of, const Report& report) {
  return apps::run_program(app, argc, argv, [&] {
    const std::vector<Variant> variants = variants_of(options);
    report(options, variants, take_turns(variants, options.measured.turns));
  });
}

inline double in_mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

inline Json json_of(const Spread& spread) {
  return {{"median", spread.median},
          {"min", spread.least},
          {"max", spread.most},
          {"low95", spread.low},
          {"high95", spread.high}};
}

/// "1.083 (1.071 to 1.101)", the median and the ends.
inline std::string text_of(const Spread& ratio) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", ratio.median, ratio.least, ratio.most);
}

/// "-" where nothing ran.
inline std::string text_of(const Turns& turns) {
  return turns.seconds.empty() ? "-" : text_of(turns.ratio());
}

/// A variant, and what was measured of it; ratios to the first one of its program.
inline Json json_of(const Variant& variant, const Turns& turns) {
  Json json{{"name", variant.name},
            {"batch", variant.shape.batch},
            {"peak_bytes", variant.peak()},  // predicted, and measured: `take_turns` compares them
            {"peak_live_bytes", variant.plan.predicted.peak_live},
            {"predicted_seconds", variant.seconds}};
  if (!turns.seconds.empty()) {
    json["seconds"] = turns.seconds;
    json["ratio"] = json_of(turns.ratio());
  }
  if (variant.bound) json["bound_relative_time"] = *variant.bound;
  if (variant.dropped) json["dropped"] = *variant.dropped;
  json["calls_made_again"] = variant.again;
  if (variant.solve_seconds > 0) json["solve_seconds"] = variant.solve_seconds;
  return json;
}

/// What was asked, to be filled with what was found.
inline Json json_of(const CaseOptions& options) {
  const TrainingShape& shape = options.shape;
  return {{"model", shape.model},    {"height", shape.height},     {"width", shape.width},
          {"batch", shape.batch},    {"classes", shape.outputs()}, {"rounds", options.turns.rounds},
          {"threads", num_threads()}};
}

/// Prints the case with a note, the columns' names, and `print_row(variant, first variant, turns)`
/// of each variant. Returns the line of JSON that says the same.
template <class Row>
Json report_rows(const CaseOptions& options, const std::string& note, const std::string& columns,
                 const std::vector<Variant>& variants, const std::vector<Turns>& turns,
                 const Row& print_row) {
  Json line = json_of(options);
  fmt::print("{}, {} rounds, {} threads{}\n{}\n", variants[0].shape.name(), options.turns.rounds,
             num_threads(), note, columns);
  for (size_t i = 0; i < variants.size(); ++i) {
    print_row(variants[i], variants[0], turns[i]);
    line["variants"].push_back(json_of(variants[i], turns[i]));
  }
  return line;
}

inline void keep(const CaseOptions& options, const Json& line) {
  if (options.json.empty()) return;
  std::ofstream file(options.json, std::ios::app);
  file << line.dump() << std::endl;
  expect<FileError>(file.good(), "json", "cannot write to {}", options.json);
}

}  // namespace brim::bench
