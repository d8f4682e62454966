// The pluggable part of memory: decides where in the source's bytes a request goes. Categories,
// peaks, caps, fault injection and recording live in the account above, so a planner of your
// own has them too: derive from `Planner`, and pass it to an `Account`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "brim/memory/category.h"
#include "brim/memory/section.h"
#include "brim/memory/site.h"
#include "brim/memory/source.h"

namespace brim::memory {

struct Request {
  int64_t bytes = 0;  ///< positive, already rounded up to `alignment`
  int64_t alignment = kAlignment;
  Category category = Category::other;
  int stream = 0;
  const Site* site = nullptr;  ///< who asks; never null under an account
};

struct Plan;

/// What a planner gave. `token` is the planner's own; it comes back with the release.
struct Placement {
  void* address = nullptr;
  void* token = nullptr;
};

/// What a planner did since it was made, and what it has now. Zeros where it does not say.
struct PlannerStats {
  int64_t segments = 0;      ///< pieces that it holds of the source
  int64_t splits = 0;        ///< placements that left a rest
  int64_t hits = 0;          ///< requests served from bytes that it held
  int64_t misses = 0;        ///< those for which it asked the source
  int64_t largest_free = 0;  ///< bytes of its largest cached piece
};

/// Not thread safe: the account calls it under its lock.
class Planner {
 public:
  explicit Planner(Source& source) : source_(source) {}
  virtual ~Planner() = default;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  virtual std::string_view name() const = 0;
  /// Room for the request, or a null address when there is none. Nothing new may be held then.
  virtual Placement place(const Request& request) = 0;
  virtual void release(const Placement& placement) noexcept = 0;
  /// As `place`, for a buffer that was held before the planner was made, and moves to it
  /// (`Account::replan`): the program's state, above all. They come first, the oldest in front.
  virtual Placement place_kept(const Request& request) { return place(request); }

  /// Bytes held for nobody, free for the next request.
  virtual int64_t cached() const { return 0; }
  /// Bytes lost inside placements, between what was asked and what was set aside.
  virtual int64_t fragmented() const { return 0; }
  /// Requests that a plan should have served and did not; 0 for a planner that has no plan.
  virtual int64_t mismatches() const { return 0; }
  /// What they were, and which buffers were in the way of the plan, for people; "" for nothing.
  virtual std::string mismatch_report() const { return ""; }
  /// Gives unused bytes back to the source.
  virtual void empty_cache() noexcept {}

  virtual PlannerStats stats() const { return {}; }

  /// Whether all bytes of a step are its own before the step begins, so that no request of it runs
  /// out: for what cannot be undone midway, like an update fused into backward.
  virtual bool reserves_steps() const { return false; }
  /// The plan that it follows (memory/plan/plan.h); null for a planner that has none.
  virtual std::shared_ptr<const Plan> plan() const { return nullptr; }

  /// A training step begins, or ended, done or undone.
  virtual void begin_step() {}
  virtual void end_step() noexcept {}
  /// A part of a step, or an evaluation, begins or ended. An evaluation may come inside another
  /// section.
  virtual void begin_section(const Section&) {}
  virtual void end_section() noexcept {}

  /// Bytes taken from the source: live + cached + fragmented.
  int64_t reserved() const { return source_.used(); }

 protected:
  Source& source() { return source_; }

 private:
  Source& source_;
};

/// The planner may take bytes of the source at once, and keeps the reference. An account keeps the
/// function, to make such a planner again (`Account::replan`).
using MakePlanner = std::function<std::unique_ptr<Planner>(Source&)>;

}  // namespace brim::memory
