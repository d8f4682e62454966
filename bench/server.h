// The protocol of programs that take turns with others (turns.py): one prints `ready` when warm,
// then answers each line `step N` with one line of N space-separated seconds, `peak` with the bytes
// that were live at the most, and `bound` with the seconds that a step takes at this machine's peak
// (train/machine_peak.h); `unknown` where it cannot tell.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>

#include "brim/base/error.h"

namespace brim::bench {

/// What one serves.
struct Served {
  std::function<double()> step;  ///< makes one, returns its seconds
  std::function<int64_t()> peak = {};
  std::function<double()> bound = {};
};

template <class Answer>
void answer(const Answer& known) {
  if (known)
    std::cout << known() << std::endl;
  else
    std::cout << "unknown" << std::endl;
}

/// Until the input ends, after `warm_up` steps.
inline void serve(const Served& served, int warm_up) {
  for (int i = 0; i < warm_up; ++i) served.step();
  // Who waits for a line looks at no signal.
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  std::cout << "ready" << std::endl;
  std::string command;
  for (int count = 0; std::cin >> command;) {
    if (command == "peak") {
      answer(served.peak);
    } else if (command == "bound") {
      answer(served.bound);
    } else if (command == "step" && std::cin >> count) {
      for (int i = 0; i < count; ++i) std::cout << (i > 0 ? " " : "") << served.step();
      std::cout << std::endl;
    } else {
      raise<ValueError>("server", "expected step N, peak or bound, got '{}'", command);
    }
  }
}

}  // namespace brim::bench
