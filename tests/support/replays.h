// The calls that run again for backward while it lives, for tests that say which ones do, how
// often, or that none does. For whether an op gives the same bits again see replay.h.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "brim/autograd/op.h"

namespace brim::testing {

struct Replays : autograd::OpObserver {
  void ran(const autograd::OpEvent& event) override {
    if (event.phase != autograd::Phase::recompute) return;
    names.emplace_back(event.op.name());
    const Tensor& result = event.outputs.front();
    const int64_t bytes = result.numel() * size_of(result.dtype());
    if (bytes > most_bytes) largest = fmt::format("{} {}", event.module, to_string(result.shape()));
    most_bytes = std::max(most_bytes, bytes);
    if (result.dim() == 0) return;
    rows += result.size(0);
    int64_t& of_op = most_rows_of[names.back()];
    of_op = std::max(of_op, result.size(0));
    most_rows = std::max(most_rows, result.size(0));
  }
  int64_t count() const { return std::ssize(names); }

  std::vector<std::string> names;               ///< of their ops, in order
  int64_t rows = 0, most_rows = 0;              ///< of their first results: of all, and of one
  std::map<std::string, int64_t> most_rows_of;  ///< by op
  int64_t most_bytes = 0;                       ///< of a first result
  std::string largest = "no result";            ///< which one that was
};

}  // namespace brim::testing
