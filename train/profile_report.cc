#include "brim/train/profile_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "brim/base/bytes.h"
#include "brim/memory/report/profile_page.h"
#include "brim/train/device_speed.h"

namespace brim {
namespace {

using memory::kPhaseCount;
using memory::Phase;

constexpr Phase kInOrder[] = {Phase::forward, Phase::backward, Phase::recompute, Phase::update};

/// Of two updates that did the same work.
bool are_alike(const ProfiledUpdate& a, const ProfiledUpdate& b) {
  return std::ranges::equal(a.ops, b.ops, [](const OpCost& x, const OpCost& y) {
    return x.module == y.module && x.op == y.op && x.phase == y.phase &&
           x.cost.launches == y.cost.launches && x.cost.bytes_moved == y.cost.bytes_moved &&
           x.cost.flops == y.cost.flops;
  });
}

std::vector<const ProfiledUpdate*> most_alike(const std::vector<ProfiledUpdate>& updates) {
  std::vector<const ProfiledUpdate*> most;
  for (const ProfiledUpdate& one : updates) {
    std::vector<const ProfiledUpdate*> alike;
    for (const ProfiledUpdate& other : updates)
      if (are_alike(one, other)) alike.push_back(&other);
    if (alike.size() > most.size()) most = std::move(alike);
  }
  return most;
}

template <class SecondsOf>
double median(const std::vector<const ProfiledUpdate*>& updates, const SecondsOf& seconds_of) {
  std::vector<double> all;
  for (const ProfiledUpdate* update : updates) all.push_back(seconds_of(*update));
  std::ranges::sort(all);
  const size_t half = all.size() / 2;
  return all.size() % 2 == 1 ? all[half] : (all[half - 1] + all[half]) / 2;
}

// Launches on several streams of a GPU may take longer than the update, taken together.
double seconds_outside(const ProfiledUpdate& update) {
  double seconds = update.seconds;
  for (const OpCost& op : update.ops) seconds -= op.cost.seconds;
  return std::max(seconds, 0.0);
}

size_t at(Phase phase) { return static_cast<size_t>(phase); }

/// The rows of a tree, each module after what it is in.
class ModuleTree {
 public:
  void add(const OpCost& op) {
    for (std::string path = op.module;; path.resize(path.rfind('.'))) {
      ModuleCost& row = nodes_[number_of(path)].row;
      row.cost += op.cost;
      row.seconds[at(op.phase)] += op.cost.seconds;
      if (path.find('.') == path.npos) return;
    }
  }

  std::vector<ModuleCost> rows() const {
    std::vector<ModuleCost> rows;
    append(top_, 0, rows);
    return rows;
  }

 private:
  struct Node {
    ModuleCost row;
    std::vector<size_t> parts;
  };

  size_t number_of(const std::string& path) {
    if (auto found = numbers_.find(path); found != numbers_.end()) return found->second;
    const size_t dot = path.rfind('.');
    const size_t number = nodes_.size();
    numbers_[path] = number;
    nodes_.push_back({.row = {.module = path}});
    if (dot == path.npos) {
      top_.push_back(number);
    } else {
      const size_t holder = number_of(path.substr(0, dot));
      nodes_[holder].parts.push_back(number);
    }
    return number;
  }

  // As deep as names have dots.
  void append(const std::vector<size_t>& numbers, int depth, std::vector<ModuleCost>& rows) const {
    for (size_t number : numbers) {
      rows.push_back(nodes_[number].row);
      rows.back().depth = depth;
      append(nodes_[number].parts, depth + 1, rows);
    }
  }

  std::vector<Node> nodes_;
  std::map<std::string, size_t> numbers_;
  std::vector<size_t> top_;
};

/// The costs of `ops`, those with the same `key_of` summed, the slowest first.
template <class KeyOf>
std::vector<OpCost> summed(const std::vector<OpCost>& ops, const KeyOf& key_of) {
  std::vector<OpCost> sums;
  std::map<decltype(key_of(ops.front())), size_t> numbers;
  for (const OpCost& op : ops) {
    auto [found, is_new] = numbers.try_emplace(key_of(op), sums.size());
    if (is_new) sums.push_back({.module = op.module, .op = op.op, .phase = op.phase});
    sums[found->second].cost += op.cost;
  }
  std::ranges::stable_sort(sums, std::greater(), [](const OpCost& op) { return op.cost.seconds; });
  return sums;
}

std::string name_of(const std::string& module) {
  return module.empty() ? "(outside of modules)" : module;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }
std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

double share_of(const ProfileReport& report, double seconds) {
  return report.seconds() > 0 ? seconds / report.seconds() : 0;
}

double giga_per_second(double amount, const LaunchCost& cost) {
  return cost.seconds > 0 ? amount / cost.seconds / 1e9 : 0;
}
double traffic_of(const LaunchCost& cost) {
  return giga_per_second(static_cast<double>(cost.bytes_moved), cost);
}
double arithmetic_of(const LaunchCost& cost) { return giga_per_second(cost.flops, cost); }

/// "forward 12.300 ms (40.0%)" of each phase that there is.
std::vector<std::string> phases_of(const ProfileReport& report) {
  std::vector<std::string> texts;
  const auto seconds = by_phase(report);
  for (Phase phase : kInOrder)
    if (seconds[at(phase)] > 0)
      texts.push_back(fmt::format("{} {} ms ({})", memory::to_string(phase),
                                  milliseconds(seconds[at(phase)]),
                                  percent(share_of(report, seconds[at(phase)]))));
  return texts;
}

std::string line_of(const std::string& name, size_t width, const std::vector<std::string>& cells) {
  return fmt::format("{:<{}}  {:>10}  {:>6}  {:>8}  {:>10}  {:>8}  {:>9}\n", name, width, cells[0],
                     cells[1], cells[2], cells[3], cells[4], cells[5]);
}

std::string text_table(const ProfileReport& report, const std::string& what, size_t most,
                       const std::vector<std::pair<std::string, LaunchCost>>& rows) {
  size_t width = what.size();
  const size_t shown = std::min(most, rows.size());
  for (size_t i = 0; i < shown; ++i) width = std::max(width, rows[i].first.size());
  std::string table = line_of(what, width, {"ms", "share", "launches", "moved", "GB/s", "GFLOP/s"});
  for (size_t i = 0; i < shown; ++i) {
    const LaunchCost& cost = rows[i].second;
    table += line_of(
        rows[i].first, width,
        {milliseconds(cost.seconds), percent(share_of(report, cost.seconds)),
         std::to_string(cost.launches), format_bytes(cost.bytes_moved),
         fmt::format("{:.1f}", traffic_of(cost)), fmt::format("{:.1f}", arithmetic_of(cost))});
  }
  if (shown < rows.size())
    table += fmt::format("and {} that take no longer\n", rows.size() - shown);
  return table;
}

memory::ProfileCell cell(std::string text, double value) { return {std::move(text), value}; }
memory::ProfileCell milliseconds_cell(double seconds) {
  return cell(milliseconds(seconds), seconds);
}

/// What both tables of the page end with.
void add_work(std::vector<memory::ProfileCell>& cells, const LaunchCost& cost) {
  const double traffic = traffic_of(cost), arithmetic = arithmetic_of(cost);
  cells.push_back(cell(std::to_string(cost.launches), static_cast<double>(cost.launches)));
  cells.push_back(cell(format_bytes(cost.bytes_moved), static_cast<double>(cost.bytes_moved)));
  cells.push_back(cell(fmt::format("{:.1f}", traffic), traffic));
  cells.push_back(cell(fmt::format("{:.3f}", cost.flops / 1e9), cost.flops));
  cells.push_back(cell(fmt::format("{:.1f}", arithmetic), arithmetic));
}

void add_work_columns(std::vector<std::string>& columns) {
  columns.insert(columns.end(), {"Launches", "Moved", "GB/s", "GFLOP", "GFLOP/s"});
}

memory::ProfileTable module_table(const ProfileReport& report) {
  memory::ProfileTable table{.columns = {"Total ms"}};
  const auto all = by_phase(report);
  for (Phase phase : kInOrder)
    if (all[at(phase)] > 0) table.columns.push_back(fmt::format("{} ms", memory::to_string(phase)));
  add_work_columns(table.columns);
  for (const ModuleCost& module : by_module(report)) {
    memory::ProfileRow row{.name = name_of(module.module),
                           .share = share_of(report, module.cost.seconds),
                           .cells = {milliseconds_cell(module.cost.seconds)},
                           .depth = module.depth};
    for (Phase phase : kInOrder)
      if (all[at(phase)] > 0) row.cells.push_back(milliseconds_cell(module.seconds[at(phase)]));
    add_work(row.cells, module.cost);
    table.rows.push_back(std::move(row));
  }
  return table;
}

memory::ProfileTable op_table(const ProfileReport& report) {
  memory::ProfileTable table{.columns = {"Total ms"}};
  add_work_columns(table.columns);
  for (const OpCost& op : by_op(report)) {
    table.rows.push_back({.name = run_name(op.op, op.phase),
                          .share = share_of(report, op.cost.seconds),
                          .cells = {milliseconds_cell(op.cost.seconds)}});
    add_work(table.rows.back().cells, op.cost);
  }
  return table;
}

std::vector<memory::ProfilePart> parts_of(const ProfileReport& report) {
  std::vector<memory::ProfilePart> parts;
  if (report.steps.empty()) return parts;
  const auto seconds = by_phase(report);
  const auto add = [&](const char* name, double took) {
    parts.push_back({fmt::format("{}, {} ms", name, milliseconds(took)), share_of(report, took)});
  };
  for (Phase phase : kInOrder) add(memory::to_string(phase), seconds[at(phase)]);
  add("no launch", report.outside);
  return parts;
}

}  // namespace

ProfileReport profile_report(const Profile& profile) {
  const std::vector<const ProfiledUpdate*> updates = most_alike(profile.updates());
  ProfileReport report;
  if (updates.empty()) return report;
  report.unlike = std::ssize(profile.updates()) - std::ssize(updates);
  for (const ProfiledUpdate* update : updates) report.steps.push_back(update->step);
  report.clocked = median(updates, [](const ProfiledUpdate& update) { return update.seconds; });
  report.outside = median(updates, seconds_outside);
  report.ops = updates.front()->ops;
  for (size_t i = 0; i < report.ops.size(); ++i) {
    LaunchCost& cost = report.ops[i].cost;
    cost.seconds =
        median(updates, [i](const ProfiledUpdate& update) { return update.ops[i].cost.seconds; });
    report.launched += cost;
  }
  return report;
}

std::vector<ModuleCost> by_module(const ProfileReport& report) {
  ModuleTree tree;
  for (const OpCost& op : report.ops) tree.add(op);
  return tree.rows();
}

std::vector<OpCost> by_op(const ProfileReport& report) {
  std::vector<OpCost> ops =
      summed(report.ops, [](const OpCost& op) { return std::tuple(op.op, op.phase); });
  for (OpCost& op : ops) op.module.clear();
  return ops;
}

std::array<double, kPhaseCount> by_phase(const ProfileReport& report) {
  std::array<double, kPhaseCount> seconds{};
  for (const OpCost& op : report.ops) seconds[at(op.phase)] += op.cost.seconds;
  return seconds;
}

std::vector<std::string> summary_of(const ProfileReport& report) {
  if (report.steps.empty())
    return {
        "no update was profiled: the first ones warm up, and what is watched or skipped does "
        "not count"};
  const LaunchCost& all = report.launched;
  std::vector<std::string> lines{
      fmt::format(
          "updates {}{}: {} ms where everything takes its median, {} ms by the clock",
          fmt::join(report.steps, ", "),
          report.unlike == 0 ? "" : fmt::format(" (and {} of other work, left out)", report.unlike),
          milliseconds(report.seconds()), milliseconds(report.clocked)),
      fmt::format("{}; {} ms ({}) in no launch", fmt::join(phases_of(report), ", "),
                  milliseconds(report.outside), percent(share_of(report, report.outside))),
      fmt::format("{} launches moved {} at {:.1f} GB/s and computed {:.3f} GFLOP at {:.1f} GFLOP/s",
                  all.launches, format_bytes(all.bytes_moved), traffic_of(all), all.flops / 1e9,
                  arithmetic_of(all))};
  return lines;
}

std::string table_of(const ProfileReport& report, size_t most) {
  if (report.steps.empty()) return "";
  std::vector<std::pair<std::string, LaunchCost>> modules, ops;
  for (const OpCost& module : summed(report.ops, [](const OpCost& op) { return op.module; }))
    modules.emplace_back(name_of(module.module), module.cost);
  for (const OpCost& op : by_op(report)) ops.emplace_back(run_name(op.op, op.phase), op.cost);
  return text_table(report, "module", most, modules) + text_table(report, "op", most, ops);
}

std::string profile_page(const ProfileReport& report, const std::vector<std::string>& about) {
  return memory::profile_page({.subtitle = about,
                               .summary = summary_of(report),
                               .parts = parts_of(report),
                               .modules = module_table(report),
                               .ops = op_table(report)});
}

}  // namespace brim
