// The six layers of docs/recompute_by_hand.md: every number that the chapter states.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "brim/memory/plan/recompute.h"
#include "brim/memory/plan/recompute_chain.h"
#include "brim/memory/plan/recompute_cuts.h"
#include "brim/memory/plan/recompute_simulation.h"

using namespace brim;
using namespace brim::memory;

namespace {

using Numbers = std::vector<int64_t>;

/// Layers A to F, of which D adds b to c. Seconds; bytes of what each makes; what each reads.
RecomputeGraph six_layers() {
  RecomputeGraph graph;
  auto add_layer = [&](double seconds, int64_t bytes, std::vector<int32_t> reads) {
    const auto op = static_cast<int32_t>(graph.ops.size());
    graph.values.push_back({.bytes = bytes, .producer = op, .may_drop = op < 5, .cheap = op == 3});
    graph.ops.push_back({.seconds = seconds, .replay_seconds = seconds, .reads = std::move(reads)});
  };
  add_layer(2, 8, {});      // A
  add_layer(2, 4, {0});     // B
  add_layer(3, 8, {1});     // C
  add_layer(1, 4, {2, 1});  // D
  add_layer(1, 6, {3});     // E
  add_layer(1, 2, {4});     // F
  // Each reads what its layer had as input; A's is the batch, and D's gradients need c alone.
  graph.steps = {{.seconds = 2, .reads = {4}, .held_before = 2, .held = 8},    // F
                 {.seconds = 2, .reads = {3}, .held_before = 6, .held = 10},   // E
                 {.seconds = 2, .reads = {2}, .held_before = 4, .held = 16},   // D
                 {.seconds = 6, .reads = {1}, .held_before = 12, .held = 16},  // C
                 {.seconds = 4, .reads = {0}, .held_before = 4, .held = 12},   // B
                 {.seconds = 4, .reads = {}, .held_before = 8, .held = 8}};    // A
  return graph;
}

/// Of the values a to f: "k" is keep, "r" retain, "m" remake.
std::vector<Fate> fates(const std::string& letters) {
  std::vector<Fate> all;
  for (char c : letters)
    all.push_back(c == 'k' ? Fate::keep : c == 'r' ? Fate::retain : Fate::remake);
  return all;
}
std::string letters(const std::vector<Fate>& fates) {
  std::string all;
  for (Fate fate : fates) all += "krm"[static_cast<int>(fate)];
  return all;
}

/// "A 8, B 12, ..., remade A 12, backward F 38".
std::string moments(const std::string& saving) {
  std::string text;
  for (const auto& moment : recompute_timeline(six_layers(), fates(saving)).moments) {
    const bool back = moment.kind == RecomputeTimeline::Kind::backward;
    if (!text.empty()) text += ", ";
    if (back) text += "backward ";
    if (moment.kind == RecomputeTimeline::Kind::replay) text += "remade ";
    text += static_cast<char>('A' + (back ? 5 - moment.number : moment.number));
    text += " " + std::to_string(moment.bytes);
  }
  return text;
}

/// A table of the planner, with what it refers to.
struct Tables {
  recompute::FlatGraph graph{six_layers()};
  recompute::SegmentTable segments{graph, 1'000'000};
};

/// Kept, peak, seconds, and what becomes of a to e: the ways to run one segment.
using Way = std::tuple<int64_t, int64_t, double, std::string>;
std::vector<Way> ways(const Tables& tables, int32_t begin, int32_t end) {
  std::vector<Way> found;
  for (const recompute::Segment& segment : tables.segments.segments()) {
    if (segment.begin != begin || segment.end != end) continue;
    for (const recompute::Option& option : segment.options) {
      std::vector<Fate> saving = tables.graph.all_kept();
      tables.segments.apply(segment, option.recipe, saving);
      found.emplace_back(option.kept, option.peak, option.seconds, letters(saving));
    }
  }
  return found;
}

/// D of the chapter: by cut, the fewest seconds by kept bytes.
std::vector<std::map<int64_t, double>> chain_table(const Tables& tables, int64_t budget,
                                                   const Numbers& rest) {
  std::vector<std::map<int64_t, double>> table(4);
  table[0][0] = 0;
  for (const recompute::Segment& segment : tables.segments.segments())
    for (const auto& [before, seconds] : table[static_cast<size_t>(segment.begin)])
      for (const recompute::Option& option : segment.options) {
        const int64_t kept = before + option.kept;
        const auto end = static_cast<size_t>(segment.end);
        if (before + option.peak > budget || kept + rest[end] > budget) continue;
        auto [at, is_new] = table[end].try_emplace(kept, seconds + option.seconds);
        at->second = std::min(at->second, seconds + option.seconds);
      }
  return table;
}

}  // namespace

TEST_CASE("six layers: with everything kept the peak is 38, where the sum of what is kept is 30") {
  CHECK(step_seconds(six_layers()) == 30);
  CHECK(moments("kkkkkk") ==
        "A 8, B 12, C 20, D 24, E 30, F 32, backward F 38, backward E 34, backward D 36, "
        "backward C 28, backward B 20, backward A 8");
}

TEST_CASE("six layers: what is kept says nothing of the peak") {
  CHECK(moments("rrrrrk") ==
        "A 8, B 12, C 12, D 16, E 10, F 8, remade A 10, remade B 14, remade C 22, remade D 26, "
        "remade E 32, backward F 38, backward E 34, backward D 36, backward C 28, backward B 20, "
        "backward A 8");
  const RecomputeCost nothing_kept = simulate_recompute(six_layers(), fates("rrrrrk"));
  CHECK(nothing_kept.peak == 38);
  CHECK(nothing_kept.extra_seconds == 9);
  const RecomputeCost without_c = simulate_recompute(six_layers(), fates("kkrkkk"));
  CHECK(without_c.peak == 36);  // backward of D needs c
  CHECK(without_c.extra_seconds == 3);
  const RecomputeCost without_a = simulate_recompute(six_layers(), fates("rkkkkk"));
  CHECK(without_a.peak == 30);
  CHECK(without_a.extra_seconds == 2);
}

TEST_CASE("six layers: cuts lie where little crosses") {
  const Tables tables;
  CHECK(recompute::crossing_bytes(tables.graph) == Numbers{8, 4, 12, 4, 6, 0});
  CHECK(recompute::choose_cuts(tables.graph, 160) == std::vector<int32_t>{0, 2, 4, 6});
}

TEST_CASE("six layers: the lists of ways to run each segment") {
  const Tables tables;
  using Ways = std::vector<Way>;
  CHECK(tables.segments.segments().size() == 6);
  CHECK(ways(tables, 0, 1) == Ways{{12, 28, 0, "kkkkkk"}, {4, 20, 2, "rkkkkk"}});
  CHECK(ways(tables, 1, 2) == Ways{{12, 24, 0, "kkkkkk"}, {4, 24, 3, "kkrkkk"}});
  CHECK(ways(tables, 2, 3) == Ways{{6, 14, 0, "kkkkkk"}, {0, 14, 1, "kkkkrk"}});
  CHECK(ways(tables, 0, 2) == Ways{{24, 36, 0, "kkkkkk"},
                                   {16, 28, 2, "rkkkkk"},
                                   {8, 28, 5, "rkrkkk"},
                                   {4, 36, 7, "rrrkkk"},
                                   {4, 24, 13, "mmmkkk"}});
  CHECK(ways(tables, 1, 3) == Ways{{18, 26, 0, "kkkkkk"},
                                   {14, 24, 1, "kkkrkk"},
                                   {12, 26, 1, "kkkkrk"},
                                   {8, 26, 2, "kkkrrk"},
                                   {8, 24, 3, "kkkmrk"},
                                   {4, 24, 4, "kkrkrk"},
                                   {0, 26, 5, "kkrrrk"},
                                   {0, 24, 6, "kkrmrk"}});
  const Ways all = ways(tables, 0, 3);
  CHECK(all.size() == 14);
  Ways within;
  std::ranges::copy_if(all, std::back_inserter(within),
                       [](const Way& way) { return std::get<1>(way) <= 28; });
  CHECK(within == Ways{{12, 28, 5, "rkkmrk"},
                       {8, 28, 6, "rkrkrk"},
                       {4, 28, 8, "rkrmrk"},
                       {4, 24, 14, "mmmkmk"},
                       {0, 24, 22, "mmmrmk"}});
}

TEST_CASE("six layers: the table of the dynamic program for 28 bytes, and its answer") {
  const Tables tables;
  using Row = std::map<int64_t, double>;
  // The least that the rest of the chain can do with, from each cut.
  const auto table = chain_table(tables, 28, {24, 24, 14, 0});
  CHECK(table[1] == Row{{4, 2}});
  CHECK(table[2] == Row{{4, 13}, {8, 5}});
  CHECK(table[3] == Row{{0, 22}, {4, 8}, {8, 6}, {10, 13}, {12, 5}, {14, 5}, {18, 3}});
  recompute::Chain chain(tables.graph, tables.segments);
  const std::optional<recompute::ChainPlan> plan = chain.plan(28);
  REQUIRE(plan);
  CHECK(plan->seconds == 3);
  CHECK(letters(plan->saving) == "rkkrkk");
  CHECK(plan->peak == 28);
  CHECK(moments("rkkrkk") ==
        "A 8, B 12, C 12, D 16, E 22, F 20, backward F 26, remade D 22, backward E 26, "
        "backward D 28, backward C 20, remade A 12, backward B 20, backward A 8");
  CHECK_FALSE(chain.plan(23));
}

TEST_CASE("six layers: for 26 bytes the dynamic program takes 13 seconds, and the planner 6") {
  Tables tables;
  recompute::Chain chain(tables.graph, tables.segments);
  const std::optional<recompute::ChainPlan> coarse = chain.plan(26);
  REQUIRE(coarse);
  CHECK(coarse->seconds == 13);
  CHECK(letters(coarse->saving) == "mmmkkk");
  const RecomputePlan plan = plan_recompute(six_layers(), 26);
  CHECK(plan.fits);
  CHECK(plan.extra_seconds == 6);
  CHECK(letters(plan.fates) == "mmkkkk");
  CHECK(moments("mmkkkk") ==
        "A 8, B 12, C 12, D 16, E 18, F 20, backward F 26, backward E 22, backward D 24, "
        "remade A 20, remade B 24, backward C 20, remade A 12, backward B 20, backward A 8");
}

TEST_CASE("six layers: of all 243 plans none is better than the planner's, for any budget") {
  const RecomputeGraph graph = six_layers();
  std::map<int64_t, double> quickest;  // by budget
  std::vector<Fate> saving(6, Fate::keep);
  for (int plan = 0; plan < 243; ++plan) {
    for (int value = 0, digits = plan; value < 5; ++value, digits /= 3)
      saving[static_cast<size_t>(value)] = static_cast<Fate>(digits % 3);
    const RecomputeCost cost = simulate_recompute(graph, saving);
    for (int64_t budget = cost.peak; budget <= 38; ++budget) {
      auto [at, is_new] = quickest.try_emplace(budget, cost.extra_seconds);
      at->second = std::min(at->second, cost.extra_seconds);
    }
  }
  CHECK(quickest == std::map<int64_t, double>{{24, 13},
                                              {25, 13},
                                              {26, 6},
                                              {27, 6},
                                              {28, 3},
                                              {29, 3},
                                              {30, 2},
                                              {31, 2},
                                              {32, 2},
                                              {33, 2},
                                              {34, 2},
                                              {35, 2},
                                              {36, 1},
                                              {37, 1},
                                              {38, 0}});
  RecomputePlanner planner(graph);
  for (const auto& [budget, seconds] : quickest) {
    CAPTURE(budget);
    const RecomputePlan plan = planner.plan(budget);
    CHECK(plan.fits);
    CHECK(plan.peak <= budget);
    CHECK(plan.extra_seconds == seconds);
    CHECK(plan.bound_seconds <= seconds);
  }
  CHECK_FALSE(planner.plan(23).fits);
  CHECK(planner.least().peak == 24);
  CHECK(planner.least().bound_peak == 24);
  CHECK(planner.plan(28).bound_seconds == 2.5);
}
