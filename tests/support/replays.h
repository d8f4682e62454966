// The calls that run again for backward while it lives, for tests that say which ones do, how
// often, or that none does. For whether an op gives the same bits again see replay.h.
#pragma once

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
    if (result.dim() == 0) return;
    rows += result.size(0);
    rows_of[names.back()] += result.size(0);
    int64_t& most_of_op = most_rows_of[names.back()];
    most_of_op = std::max(most_of_op, result.size(0));
    most_rows = std::max(most_rows, result.size(0));
  }
  int64_t count() const { return std::ssize(names); }

  std::vector<std::string> names;               ///< of their ops, in order
  int64_t rows = 0, most_rows = 0;              ///< of their first results: of all, and of one
  std::map<std::string, int64_t> rows_of, most_rows_of;  ///< the same by op
};

}  // namespace brim::testing
