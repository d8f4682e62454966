#include "brim/memory/plan/cursor.h"

#include <algorithm>
#include <cstring>

namespace brim::memory {
namespace {
// How far a planned request is looked for: what one request costs that is not in the plan.
constexpr int64_t kLookBack = 256, kLookAhead = 1024;
}  // namespace

int64_t Cursor::accept(int64_t i, const Site& site) {
  Expected& expected = program_->request(i);
  expected.met = run_;
  expected.op = site.op;
  expected.module = site.module;
  next_ = i + 1;
  high_ = std::max(high_, next_);
  in_run_ = true;
  ++found_;
  return i;
}

bool Cursor::same_op(int64_t i, const Site& site) const {
  const Expected& expected = program_->request(i);
  if (expected.op == site.op) return true;
  return plan_->sites[static_cast<size_t>(expected.site)].op == site.op;
}

bool Cursor::same_site(int64_t i, const Site& site) const {
  const PlannedSite& planned = plan_->sites[static_cast<size_t>(program_->request(i).site)];
  // A recording names phases that the program leaves open.
  auto way = [](Phase phase) {
    return phase == Phase::backward || phase == Phase::recompute ? phase : Phase::forward;
  };
  bool same_way = way(planned.phase) == way(site.phase);
  return same_op(i, site) && same_way && planned.module == site.path();
}

int64_t Cursor::search(const Request& request, bool begins_run) {
  const Site& site = *request.site;
  if (!begins_run) {
    int64_t i = in_run_ ? in_run(next_, request) : -1;
    return i < 0 ? -1 : accept(i, site);
  }
  in_run_ = false;
  const int64_t run = begin_of_run(next_);
  int64_t here = run < end_ && same_op(run, site) ? in_run(run, request) : -1;
  if (here >= 0 && same_site(run, site)) return accept(here, site);
  if (int64_t i = among_passed(request); i >= 0) return accept(i, site);
  if (int64_t i = ahead(run + 1, request); i >= 0) return accept(i, site);
  if (here >= 0) return accept(here, site);
  if (run < end_ && same_op(run, site)) {  // it asks for more, or other bytes, before the rest
    next_ = run;
    in_run_ = true;
  }
  return -1;
}

// In the run of an op of which request `from` is part, from there on.
int64_t Cursor::in_run(int64_t from, const Request& request) const {
  for (int64_t i = from; i < end_ && (i == from || !program_->request(i).begins_run); ++i)
    if (program_->request(i).bytes == request.bytes && !met(i) && same_op(i, *request.site))
      return i;
  return -1;
}

int64_t Cursor::begin_of_run(int64_t from) const {
  while (from < end_ && (!program_->request(from).begins_run || met(from))) ++from;
  return from;
}

// A request that was passed over because the program seemed to be further on.
int64_t Cursor::among_passed(const Request& request) const {
  for (int64_t i = std::max(begin_, high_ - kLookBack); i < std::min(next_, high_); ++i)
    if (!met(i) && program_->request(i).begins_run && program_->request(i).bytes == request.bytes &&
        same_site(i, *request.site))
      return i;
  return -1;
}

int64_t Cursor::ahead(int64_t from, const Request& request) const {
  for (int64_t i = from; i < std::min(from + kLookAhead, end_); ++i)
    if (program_->request(i).begins_run && program_->request(i).bytes == request.bytes && !met(i) &&
        same_site(i, *request.site))
      return i;
  return -1;
}

}  // namespace brim::memory
