// The machine-readable side of a program (`--json`): one JSON object a line, to a file or to
// standard output. Each line is flushed, so that another program can follow a run; a file that
// exists is overwritten. `train` names the kind of each object under "event". What people read goes
// through progress.h.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace brim::examples {

using Json = nlohmann::ordered_json;

class Events {
 public:
  /// `path` is a file to write, "-" for standard output, or "" for nowhere. Throws `FileError`.
  explicit Events(const std::string& path);

  /// True when standard output belongs to the events: print nothing else there.
  bool owns_stdout() const { return to_stdout_; }
  void write(const Json& event);

 private:
  bool to_stdout_ = false;
  std::string path_;
  std::ofstream file_;
};

}  // namespace brim::examples
