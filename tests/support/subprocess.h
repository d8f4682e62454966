// Runs a program and keeps what it printed, for tests of the bundled programs and of setup.sh.
// Waits for its end without a limit; standard input is empty. Output goes to files, not to a
// terminal: for what a person sees live, tests/apps/terminal_test.cc opens one.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "brim/tests/support/temp_folder.h"

namespace brim::testing {

struct Finished {
  int code = 0;
  std::string out, err;
};

/// Programs keep what they know of the machine in a folder of this test, not of the person.
inline void set_cache_folder() {
  static const TempFolder folder;
  ::setenv("BRIM_CACHE_DIR", folder.path().c_str(), /*overwrite=*/0);
}

/// `command` goes through the shell.
inline Finished run_command(const std::string& command) {
  set_cache_folder();
  TempFolder folder;
  std::string out = folder.path() + "/out", err = folder.path() + "/err";
  int status = std::system((command + " >" + out + " 2>" + err + " </dev/null").c_str());
  auto read = [](const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
}

}  // namespace brim::testing
