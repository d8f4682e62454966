// The machine-readable side of a program (`--json`): one JSON object a line, to a file or to
// standard output. `train` names the kind of each object under "event". What people read goes
// through progress.h. Text that is not UTF-8, as paths may be, is escaped (base/utf8.h).
//
// A file stays as it is until `open`, so that a run which is refused, or fails before it has begun,
// leaves the log of the one before it whole. Then the file is replaced, or where a training goes
// on, lengthened: an update that is done again, because the checkpoint is older than the log, has a
// second line in it, and the last line of an update is the one that counts.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace brim::apps {

using Json = nlohmann::ordered_json;

struct EventsOptions {
  bool append = false;  ///< to what is in the file already
};

class Events {
 public:
  /// `path` is a file to write, "-" for standard output, or "" for nowhere. Throws `FileError`
  /// where the file could not be written.
  explicit Events(const std::string& path, EventsOptions options = {});

  /// True when standard output belongs to the events: print nothing else there.
  bool owns_stdout() const { return to_stdout_; }
  /// Kept until `open`, afterwards in the file at once, so that another program can follow a run.
  void write(const Json& event);
  /// Puts what was written so far into the file. Once it is open, nothing.
  void open();

 private:
  void put(const std::string& lines);

  bool to_stdout_ = false;
  std::string path_;
  EventsOptions options_;
  std::string kept_;  // until the file is open
  std::ofstream file_;
};

}  // namespace brim::apps
