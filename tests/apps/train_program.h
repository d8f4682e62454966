// The programs train and plan run from outside, for the tests of them.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"

namespace brim::testing {

using nlohmann::json;

/// Times that are the same on every machine: nothing is measured, and both choose the same.
inline const std::string kTrain = "apps/train --op-times nominal ";
inline const std::string kPlan = "apps/plan --op-times nominal ";

inline Finished train(const std::string& arguments) { return run_command(kTrain + arguments); }

inline void check_error(const std::string& arguments, const std::string& text, int code = 1) {
  CAPTURE(arguments);
  Finished run = train(arguments);
  CAPTURE(run.err);
  CHECK(run.code == code);
  CHECK(run.err.find(text) != std::string::npos);
  // One line, so that people read it and scripts can take it.
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

/// Of what --json wrote.
inline std::vector<json> events_of(const std::string& text) {
  std::vector<json> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  return events;
}

inline std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline std::vector<double> losses_of(const std::vector<json>& events) {
  std::vector<double> losses;
  for (const json& event : events)
    if (event["event"] == "step") losses.push_back(event["loss"]);
  return losses;
}

/// The losses that a log has, by step; a last line that was cut off is left out.
inline std::map<int64_t, double> losses_in(const std::string& path) {
  std::map<int64_t, double> losses;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_discarded() && event["event"] == "step") losses[event["step"]] = event["loss"];
  }
  return losses;
}

/// The events of a run that ends well, having held what was predicted.
inline std::vector<json> trained_as_predicted(const std::string& arguments) {
  CAPTURE(arguments);
  Finished run = train("--json - " + arguments);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  std::vector<json> events = events_of(run.out);
  CHECK(events.back()["peak_bytes"] == events.back()["predicted_peak_bytes"]);
  CHECK(events.back()["mismatches"] == 0);
  return events;
}

/// A small model on random pixels.
inline const std::string kSynthetic =
    " --data synthetic --model resnet20 --size 32 --classes 10 --threads 1";
inline const std::string kQuick = " --batch 4 --steps 2 --threads 1 --workers 1";

}  // namespace brim::testing
