// Where a program is in its plan. Finds for each request the planned one that it is, by the op that
// asks, the order of requests within the run of the op, and bytes; and the place in the plan again
// after an op that is not planned, or one that does not come.
#pragma once

#include <cstdint>

#include "brim/memory/plan/expected.h"

namespace brim::memory {

class Cursor {
 public:
  Cursor() = default;
  /// Over requests `begin` to `end` of a program. `run` differs from that of every other cursor.
  Cursor(ExpectedProgram& program, const Plan& plan, int64_t begin, int64_t end, uint64_t run)
      : program_(&program),
        plan_(&plan),
        begin_(begin),
        end_(end),
        next_(begin),
        high_(begin),
        run_(run) {}

  /// The planned request that this one is, or -1. One is found at most once. `begins_run`: does the
  /// request begin a run of an op, or of requests between two?
  int64_t find(const Request& request, bool begins_run) {
    skip_met();
    if (next_ < end_) {
      const Expected& expected = program_->request(next_);
      if (expected.bytes == request.bytes && expected.begins_run == begins_run &&
          expected.op == request.site->op && expected.module == request.site->module &&
          (begins_run || in_run_))
        return accept(next_, *request.site);
    }
    return search(request, begins_run);
  }

  explicit operator bool() const { return program_ != nullptr; }
  ExpectedProgram* program() const { return program_; }
  /// All requests before this one were found or passed over.
  int64_t high() const { return high_; }
  int64_t found() const { return found_; }

 private:
  bool met(int64_t i) const { return program_->request(i).met == run_; }
  void skip_met() {
    while (next_ < high_ && met(next_)) ++next_;
  }
  int64_t accept(int64_t i, const Site& site);
  bool same_op(int64_t i, const Site& site) const;
  bool same_site(int64_t i, const Site& site) const;
  int64_t search(const Request& request, bool begins_run);
  int64_t in_run(int64_t from, const Request& request) const;
  int64_t begin_of_run(int64_t from) const;
  int64_t among_passed(const Request& request) const;
  int64_t ahead(int64_t from, const Request& request) const;

  ExpectedProgram* program_ = nullptr;
  const Plan* plan_ = nullptr;
  int64_t begin_ = 0, end_ = 0;
  int64_t next_ = 0;  // the first one to compare with
  int64_t high_ = 0;
  int64_t found_ = 0;
  uint64_t run_ = 0;
  bool in_run_ = false;  // is the run of an op that goes on one of the plan?
};

}  // namespace brim::memory
