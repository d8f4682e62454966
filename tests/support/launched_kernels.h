// Which kernels ran while an observer looked on.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "brim/core/launch.h"

namespace brim::testing {

/// Names of the kernels that ran, those through float32 with a star. To be shown launches by a
/// `LaunchObserverScope`.
class LaunchedKernels final : public LaunchObserver {
 public:
  void launched(const LaunchEvent& event) override {
    names_.push_back(event.kernel + std::string(event.widened ? "*" : ""));
  }
  int64_t runs_of(const std::string& name) const { return std::ranges::count(names_, name); }

 private:
  std::vector<std::string> names_;
};

}  // namespace brim::testing
