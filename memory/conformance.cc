#include "brim/memory/conformance.h"

#include <algorithm>
#include <cmath>

#include "brim/base/random.h"
#include "brim/memory/conformance/moves.h"
#include "brim/memory/conformance/probe.h"

namespace brim::memory {
namespace {

using conformance::Pieces;
using conformance::Probe;

// Begins and ends steps and sections in any order that nests: an evaluation may come inside a
// micro-step, a step not inside another.
class Hooks {
 public:
  explicit Hooks(Probe& probe) : probe_(probe) {}

  void change(RandomStream& random) {
    if (open_.size() < 3 && random.uniform() < 0.5f)
      begin(random);
    else if (!open_.empty())
      end();
  }
  void end_all() {
    while (!open_.empty()) end();
  }

 private:
  void begin(RandomStream& random) {
    bool in_step = std::ranges::count(open_, true) > 0;
    bool step = !in_step && random.uniform() < 0.5f;
    if (step)
      probe_.begin_step();
    else
      probe_.begin_section(
          {static_cast<SectionKind>(random.below(5)), static_cast<int64_t>(random.below(3)) * 16});
    open_.push_back(step);
  }
  void end() {
    open_.back() ? probe_.end_step() : probe_.end_section();
    open_.pop_back();
  }

  Probe& probe_;
  std::vector<bool> open_;  // is it a step?
};

int any_stream(RandomStream& random, const ConformanceOptions& options) {
  return static_cast<int>(random.below(static_cast<uint64_t>(options.streams)));
}

void random_requests(Probe& probe, const ConformanceOptions& options) {
  RandomStream random(RandomKey{options.seed});
  Hooks hooks(probe);
  auto limit = static_cast<float>(std::log(static_cast<double>(options.largest)));
  for (int64_t i = 0; i < options.operations; ++i) {
    float choice = random.uniform();
    if (choice < 0.02f)
      hooks.change(random);
    else if (choice < 0.025f)
      probe.empty_cache();
    else if (probe.held() == 0 || choice < 0.55f)
      probe.place(static_cast<int64_t>(std::exp(random.uniform(0, limit))),
                  any_stream(random, options));
    else
      probe.release(random.below(probe.held()));
  }
  hooks.end_all();
  probe.release_all();
}

/// Places requests of `bytes` until one is refused; returns how many were served.
size_t fill(Probe& probe, int64_t bytes, int stream) {
  size_t before = probe.held();
  while (probe.place(bytes, stream)) {
  }
  return probe.held() - before;
}

void run_out_and_recover(Probe& probe, const ConformanceOptions& options) {
  if (!probe.place(1, 0)) probe.fail("refuses 64 bytes when nothing is held");
  probe.release_all();
  for (int64_t bytes : {options.capacity + kAlignment, Source::kUnlimited / 2})
    if (probe.place(bytes, 0)) probe.fail("places {} bytes of {}", bytes, options.capacity);
  for (int64_t bytes = kAlignment; bytes <= options.capacity; bytes *= 8)
    for (int stream = 0; stream < options.streams; ++stream) {
      if (bytes * 4096 < options.capacity) continue;  // would take long and show no more
      size_t served = fill(probe, bytes, stream);
      for (size_t i = 0; i < probe.held(); ++i) probe.release(i);  // about every second one
      fill(probe, bytes / 2, stream);
      probe.release_all();
      if (served > 0 && !probe.place(bytes, (stream + 1) % options.streams))
        probe.fail("refuses {} bytes after all was released, and had served as many", bytes);
      probe.release_all();
    }
}

// A limit that falls below what is reserved takes nothing from anybody; what was released may serve
// again.
void lose_room(Probe& probe, const ConformanceOptions& options) {
  for (int i = 0; i < 8; ++i) probe.place(options.largest / 8, 0);
  probe.set_capacity(probe.reserved() / 2);
  for (int i = 0; i < 4 && probe.held() > 0; ++i) probe.release(0);
  fill(probe, options.largest / 8, 0);
  probe.release_all();
  probe.set_capacity(options.capacity);
}

void finish(Probe& probe, const ConformanceOptions& options) {
  probe.empty_cache();
  if (options.empties && probe.reserved() != 0)
    probe.fail("keeps {} bytes after empty_cache when nothing is held", probe.reserved());
  probe.end();
}

std::vector<int64_t> examine(const MakePlanner& make_planner, const ConformanceOptions& options,
                             const Pages& pages, Pieces pieces) {
  Probe probe(make_planner, options, pages, pieces);
  random_requests(probe, options);
  run_out_and_recover(probe, options);
  lose_room(probe, options);
  finish(probe, options);
  return probe.history();
}

void compare(const MakePlanner& make_planner, const ConformanceOptions& options, const Pages& pages,
             Pieces pieces, const std::vector<int64_t>& expected) {
  std::vector<int64_t> got = examine(make_planner, options, pages, pieces);
  auto [a, b] = std::ranges::mismatch(expected, got);
  if (a == expected.end() && b == got.end()) return;
  Probe probe(make_planner, options, pages, pieces);  // for its name
  probe.fail(
      "reserves other bytes for the same requests when the source puts its pieces elsewhere, from "
      "operation {} on",
      a - expected.begin());
}

}  // namespace

void check_planner(const MakePlanner& make_planner, const ConformanceOptions& options) {
  expect<ValueError>(options.largest >= 512 && options.largest <= options.capacity / 2,
                     "conformance",
                     "expected a largest request of 512 bytes to half the capacity of {}, got {}",
                     options.capacity, options.largest);
  expect<ValueError>(options.operations > 0 && options.streams > 0, "conformance",
                     "expected operations and streams, got {} and {}", options.operations,
                     options.streams);
  for (const Pages& pages : options.pages) {
    std::vector<int64_t> history = examine(make_planner, options, pages, Pieces::in_memory);
    compare(make_planner, options, pages, Pieces::ascending, history);
    compare(make_planner, options, pages, Pieces::descending, history);
    conformance::check_moves(make_planner, options, pages);
  }
}

}  // namespace brim::memory
