#include "brim/train/calibration.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "brim/base/error.h"
#include "brim/base/parallel.h"
#include "brim/io/atomic_file.h"
#include "brim/io/input_file.h"
#include "brim/train/speed_file.h"

namespace brim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTag = "op times";
constexpr int64_t kMostBytes = 1 << 16;  // of a file

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string read_all(const std::string& path) {
  io::InputFile file(path, kTag);
  expect<FileError>(file.size() <= kMostBytes, kTag, "it has {} bytes, which is too much",
                    file.size());
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void keep(const std::string& path, const MeasuredSpeed& speed, const Machine& machine) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  // Where that failed, this says why.
  io::write_file(path, to_text(speed, machine), kTag);
}

}  // namespace

std::string cache_folder() {
  if (std::string folder = variable("BRIM_CACHE_DIR"); !folder.empty()) return folder;
  if (std::string caches = variable("XDG_CACHE_HOME"); !caches.empty()) return caches + "/brim";
  if (std::string home = variable("HOME"); !home.empty()) return home + "/.cache/brim";
  return "";
}

std::string calibration_file(Device device, const std::string& folder) {
  return fmt::format("{}/op_times_{}_{}.json", folder, to_string(device.type), num_threads());
}

MeasuredSpeed calibrated_speed(Device device, const CalibrationOptions& options) {
  auto say = [&](const std::string& text) {
    options.say ? options.say(text) : void(std::cerr << text << std::endl);
  };
  auto measure = [&] {
    return options.measure ? options.measure() : measured_speed({.device = device});
  };
  if (options.folder.empty()) return measure();
  const std::string path = calibration_file(device, options.folder);
  const Machine machine = this_machine();
  std::error_code error;
  if (fs::exists(path, error)) {
    try {
      return speed_from(read_all(path), machine);
    } catch (const FileError& refusal) {
      say(fmt::format("{} ('{}'); measured again", refusal.what(), path));
    }
  }
  const MeasuredSpeed speed = measure();
  try {
    keep(path, speed, machine);
  } catch (const FileError& refusal) {
    say(fmt::format("{}; the next run measures again", refusal.what()));
  }
  return speed;
}

}  // namespace brim
