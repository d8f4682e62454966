#include "brim/memory/plan/recompute_cuts.h"

#include <algorithm>

namespace brim::memory::recompute {
namespace {

template <class Counts>
std::vector<int64_t> sum_crossing(const FlatGraph& graph, const Counts& counts) {
  std::vector<int64_t> bytes(at(graph.ops()) + 1);
  for (int32_t v = 0; v < graph.values(); ++v) {
    if (!counts(v)) continue;
    bytes[at(graph.producer[at(v)])] += graph.bytes[at(v)];
    bytes[at(graph.last_use[at(v)])] -= graph.bytes[at(v)];
  }
  for (size_t op = 1; op < bytes.size(); ++op) bytes[op] += bytes[op - 1];
  bytes.pop_back();
  return bytes;
}

/// Ops behind which no fewer bytes cross than behind their neighbours. What is not saved anyway
/// counts twice: a cut would add it to what is kept.
std::vector<int32_t> local_minima(const FlatGraph& graph, std::vector<int64_t>& price) {
  price = crossing_bytes(graph);
  auto unsaved = sum_crossing(graph, [&](int32_t v) { return !graph.saved[at(v)]; });
  for (size_t op = 0; op < price.size(); ++op) price[op] += unsaved[op];
  std::vector<int32_t> minima;
  for (int32_t op = 0; op + 1 < graph.ops(); ++op)
    if ((op == 0 || price[at(op)] <= price[at(op) - 1]) && price[at(op)] <= price[at(op) + 1])
      minima.push_back(op);
  return minima;
}

}  // namespace

std::vector<int64_t> crossing_bytes(const FlatGraph& graph) {
  return sum_crossing(graph, [](int32_t) { return true; });
}

std::vector<int32_t> choose_cuts(const FlatGraph& graph, int32_t most) {
  std::vector<int32_t> cuts{0};
  std::vector<int64_t> price;
  std::vector<int32_t> minima = local_minima(graph, price);
  const auto count = static_cast<int64_t>(minima.size());
  const int64_t groups = std::min<int64_t>(count, most - 1);
  for (int64_t group = 0; group < groups; ++group) {
    // The last of the cheapest: nearest to the end of its group, so that cuts are spread.
    int32_t best = minima[at(group * count / groups)];
    for (int64_t i = group * count / groups; i < (group + 1) * count / groups; ++i)
      if (price[at(minima[at(i)])] <= price[at(best)]) best = minima[at(i)];
    cuts.push_back(best + 1);
  }
  if (cuts.back() < graph.ops()) cuts.push_back(graph.ops());
  return cuts;
}

}  // namespace brim::memory::recompute
