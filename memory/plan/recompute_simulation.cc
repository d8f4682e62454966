#include "brim/memory/plan/recompute_simulation.h"

#include <algorithm>
#include <tuple>

#include "brim/memory/plan/recompute_simulator.h"

namespace brim::memory {

RecomputeCost simulate_recompute(const RecomputeGraph& graph, std::span<const Fate> saving) {
  recompute::FlatGraph flat(graph);
  recompute::Cost cost = recompute::Simulator(flat).run(flat.from_graph(saving));
  return {flat.fixed + cost.peak, cost.seconds, cost.waits, cost.replays, cost.host};
}

RecomputeTimeline recompute_timeline(const RecomputeGraph& graph, std::span<const Fate> saving) {
  recompute::FlatGraph flat(graph);
  recompute::Simulator simulator(flat);
  simulator.record(true);
  simulator.run(flat.from_graph(saving));
  RecomputeTimeline timeline = simulator.timeline();
  for (auto& moment : timeline.moments) moment.bytes += flat.fixed;
  for (auto& instance : timeline.instances)
    instance.value = flat.number[recompute::at(instance.value)];
  std::ranges::sort(timeline.instances, {},
                    [](const auto& i) { return std::tuple(i.born, i.value); });
  return timeline;
}

}  // namespace brim::memory
