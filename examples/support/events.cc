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
  if (to_stdout_) std::cout << event.dump() << std::endl;
  if (!file_.is_open()) return;
  file_ << event.dump() << std::endl;  // flushed: others may follow the file
  expect<FileError>(file_.good(), "json", "writing to {} failed", path_);
}

}  // namespace brim::examples
