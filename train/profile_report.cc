#include "brim/train/profile_report.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace brim {
namespace {

using memory::kPhaseCount;
using memory::Phase;

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

/// The costs of the report, those with the same `key_of` summed; what could be improved most comes
/// first.
template <class KeyOf>
std::vector<OpCost> summed(const ProfileReport& report, const KeyOf& key_of) {
  std::vector<OpCost> sums;
  std::map<decltype(key_of(report.ops.front())), size_t> numbers;
  for (const OpCost& op : report.ops) {
    auto [found, is_new] = numbers.try_emplace(key_of(op), sums.size());
    if (is_new) sums.push_back({.module = op.module, .op = op.op, .phase = op.phase});
    sums[found->second].cost += op.cost;
  }
  // Where nothing is known of a peak, all of the time.
  std::ranges::stable_sort(sums, std::greater(), [](const OpCost& op) { return op.cost.excess(); });
  return sums;
}

}  // namespace

ProfileReport profile_report(const Profile& profile, const std::optional<MachinePeak>& peak) {
  const std::vector<const ProfiledUpdate*> updates = most_alike(profile.updates());
  ProfileReport report{.peak = peak};
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
    if (peak) cost.least_seconds = least_seconds(cost, *peak);
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
      summed(report, [](const OpCost& op) { return std::tuple(op.op, op.phase); });
  for (OpCost& op : ops) op.module.clear();
  return ops;
}

std::vector<OpCost> by_layer(const ProfileReport& report) {
  std::vector<OpCost> layers = summed(report, [](const OpCost& op) { return op.module; });
  for (OpCost& layer : layers) layer.op.clear();
  return layers;
}

std::vector<OpCost> by_call(const ProfileReport& report) {
  return summed(report, [](const OpCost& op) { return std::tuple(op.module, op.op, op.phase); });
}

std::array<double, kPhaseCount> by_phase(const ProfileReport& report) {
  std::array<double, kPhaseCount> seconds{};
  for (const OpCost& op : report.ops) seconds[at(op.phase)] += op.cost.seconds;
  return seconds;
}

}  // namespace brim
