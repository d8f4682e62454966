#include "brim/autograd/tournament.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace brim::autograd {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr double kFar = 1e18;  // moments that a number of 64 bits can count

size_t at(int i) { return static_cast<size_t>(i); }

}  // namespace

bool Tournament::has(int i) const {
  return at(i) < candidates_.size() && candidates_[at(i)].speed > 0;
}

void Tournament::set(int i, double speed, int64_t since) {
  if (at(i) >= candidates_.size()) grow(std::max<size_t>(2 * candidates_.size(), at(i) + 1));
  candidates_[at(i)] = {speed, since};
  climb(at(i));
}

void Tournament::remove(int i) {
  if (!has(i)) return;
  candidates_[at(i)] = {};
  climb(at(i));
}

int Tournament::winner(int64_t now) {
  now_ = now;
  if (candidates_.empty()) return kNobody;
  advance(1);
  return winners_[1];
}

double Tournament::score(int i) const {
  const Candidate& candidate = candidates_[at(i)];
  return candidate.speed * static_cast<double>(now_ - candidate.since + 1);
}

int64_t Tournament::overtaken_at(int first, int later) const {
  const Candidate &a = candidates_[at(first)], &b = candidates_[at(later)];
  if (b.speed <= a.speed) return kNever;
  // a.speed * (t - a.since + 1) = b.speed * (t - b.since + 1)
  const double t =
      (b.speed * static_cast<double>(b.since - 1) - a.speed * static_cast<double>(a.since - 1)) /
      (b.speed - a.speed);
  if (!(t < kFar)) return kNever;
  return std::max(static_cast<int64_t>(std::floor(t)), now_) + 1;
}

void Tournament::grow(size_t leaves) {
  size_t count = 2;
  while (count < leaves) count *= 2;
  candidates_.resize(count);
  winners_.assign(2 * count, kNobody);
  until_.assign(count, kNever);
  for (size_t i = 0; i < count; ++i)
    if (candidates_[i].speed > 0) winners_[count + i] = static_cast<int>(i);
  for (size_t node = count - 1; node > 0; --node) compare(node);
}

// Where one below is out of date, so is the node, and `advance` will see to both.
void Tournament::compare(size_t node) {
  ++comparisons_;
  int first = winners_[2 * node], other = winners_[2 * node + 1];
  if (first == kNobody || (other != kNobody && score(other) > score(first)))
    std::swap(first, other);
  winners_[node] = first;
  until_[node] = other == kNobody ? kNever : overtaken_at(first, other);
  if (2 * node < until_.size())
    until_[node] = std::min({until_[node], until_[2 * node], until_[2 * node + 1]});
}

void Tournament::advance(size_t node) {
  if (node >= until_.size() || until_[node] > now_) return;
  advance(2 * node);
  advance(2 * node + 1);
  compare(node);
}

void Tournament::climb(size_t leaf) {
  size_t node = candidates_.size() + leaf;
  winners_[node] = has(static_cast<int>(leaf)) ? static_cast<int>(leaf) : kNobody;
  while ((node /= 2) > 0) compare(node);
}

}  // namespace brim::autograd
