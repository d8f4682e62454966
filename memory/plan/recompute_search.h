// The search for plans on flat graphs: what recompute.h does, in the numbers of a FlatGraph and
// without the fixed bytes. With a host, what is best without it is searched first, and improved, so
// that a host never makes a plan worse. Programs call recompute.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/recompute_chain.h"
#include "brim/memory/plan/recompute_flat.h"
#include "brim/memory/plan/recompute_segments.h"
#include "brim/memory/plan/recompute_simulator.h"

namespace brim::memory::recompute {

struct Found {
  std::vector<Fate> saving;
  Cost cost;
};

class Search {
 public:
  /// Keeps a reference to `graph`.
  Search(const FlatGraph& graph, double effort, RandomKey key);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  Found keep_all();
  /// The lowest peak found; worked out once.
  const Found& least();
  /// The quickest found within `budget`; none where none was found.
  std::optional<Found> plan(int64_t budget);

  int64_t simulations() const;
  int64_t transitions() const;

 private:
  Chain& chain();
  std::vector<std::vector<Fate>> starts_for(int64_t budget);
  Found improved(Simulator& simulator, std::vector<Fate> start, int64_t budget, double share) const;
  std::vector<std::vector<Fate>> by_chain(int64_t budget);
  Found simulated(std::vector<Fate> saving);
  std::vector<Fate> offloading(std::vector<Fate> saving, int64_t most) const;
  std::vector<Fate> offloading_for(int64_t budget, const std::vector<Fate>& saving);
  std::vector<std::vector<Fate>> with_copies(int64_t budget);
  int64_t work(double share) const;

  const FlatGraph& graph_;
  Simulator simulator_;
  double effort_;
  RandomKey key_;
  std::unique_ptr<const FlatGraph> graph_alone_;  // without the host; null where there is none
  std::unique_ptr<Search> alone_;                 // on that
  std::optional<SegmentTable> table_;
  std::optional<Chain> chain_;
  std::optional<Found> least_;
  int64_t simulations_elsewhere_ = 0;  // by simulators beside it
};

}  // namespace brim::memory::recompute
