#include "brim/examples/support/events.h"

#include <iostream>

#include "brim/base/error.h"

namespace brim::examples {

Events::Events(const std::string& path) : to_stdout_(path == "-"), path_(path) {
  if (path.empty() || to_stdout_) return;
  file_.open(path, std::ios::trunc);
  expect<FileError>(file_.is_open(), "json", "cannot write {}", path);
}

void Events::write(const Json& event) {
  if (path_.empty()) return;
  std::ostream& to = to_stdout_ ? std::cout : file_;
  to << event.dump() << std::endl;  // flushed: others may follow it
  expect<FileError>(to.good(), "json", "writing to {} failed",
                    to_stdout_ ? "standard output" : path_);
}

}  // namespace brim::examples
