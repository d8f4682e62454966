#include "brim/apps/support/events.h"

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "brim/base/error.h"
#include "brim/base/json_text.h"
#include "brim/apps/support/output.h"
#include "brim/io/atomic_file.h"

namespace brim::apps {
namespace {

constexpr const char* kTag = "json";

/// A pipe or a device: it is written to as it is.
bool is_special(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

/// Whether there is a line in the file that a run which was killed did not end.
bool ends_within_line(const std::string& path) {
  if (is_special(path)) return false;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

}  // namespace

Events::Events(const std::string& path, EventsOptions options)
    : to_stdout_(path == "-"), path_(path), options_(options) {
  if (!path.empty() && !to_stdout_ && !is_special(path)) io::check_writable(path, kTag);
}

void Events::write(const Json& event) {
  if (path_.empty()) return;
  const std::string line = json_text(event) + '\n';
  if (to_stdout_) {
    std::cout << line;
    check_output();
  } else if (file_.is_open()) {
    put(line);
  } else {
    kept_ += line;
  }
}

void Events::open() {
  if (path_.empty() || to_stdout_ || file_.is_open()) return;
  const bool replaces = !options_.append && !is_special(path_);
  if (replaces) io::write_file(path_, kept_, kTag);
  const std::string lines = replaces ? "" : (ends_within_line(path_) ? "\n" : "") + kept_;
  file_.open(path_, std::ios::app);
  expect<FileError>(file_.is_open(), kTag, "cannot write '{}': {}", path_,
                    std::generic_category().message(errno));
  put(lines);
  kept_.clear();
}

void Events::put(const std::string& lines) {
  errno = 0;
  file_ << lines << std::flush;
  expect<FileError>(file_.good(), kTag, "cannot write '{}': {}", path_,
                    std::generic_category().message(errno == 0 ? EIO : errno));
}

}  // namespace brim::apps
