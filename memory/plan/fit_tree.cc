#include "brim/memory/plan/fit_tree.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

namespace brim::memory::packing {
namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

size_t index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

FitTree::FitTree(const Instance& instance)
    : instance_(instance),
      by_end_(index(instance.buffers())),
      place_by_end_(by_end_.size()),
      ends_at_(index(instance.sections()) + 2),
      leaves_(std::bit_ceil(std::max<size_t>(by_end_.size(), 1))),
      best_(2 * leaves_),
      best_by_end_(2 * leaves_),
      least_last_(2 * leaves_) {
  std::iota(by_end_.begin(), by_end_.end(), 0);
  std::ranges::sort(by_end_, {}, [&](int32_t b) {
    return std::tuple(instance_.last[index(b)], instance_.first[index(b)], b);
  });
  for (size_t i = 0; i < by_end_.size(); ++i)
    place_by_end_[index(by_end_[i])] = static_cast<int32_t>(i);
  for (int32_t last : instance_.last) ++ends_at_[index(last) + 1];
  std::partial_sum(ends_at_.begin(), ends_at_.end(), ends_at_.begin());
}

void FitTree::reset(std::span<const float> ranks) {
  ranks_ = ranks;
  for (size_t i = 0; i < leaves_; ++i) {
    bool there = i < by_end_.size();
    best_[leaves_ + i] = there ? static_cast<int32_t>(i) : kNone;
    best_by_end_[leaves_ + i] = there ? by_end_[i] : kNone;
    least_last_[leaves_ + i] = there ? instance_.last[i] : kNever;
  }
  for (size_t i = leaves_ - 1; i > 0; --i) {
    best_[i] = better(best_[2 * i], best_[2 * i + 1]);
    best_by_end_[i] = better(best_by_end_[2 * i], best_by_end_[2 * i + 1]);
    least_last_[i] = std::min(least_last_[2 * i], least_last_[2 * i + 1]);
  }
}

void FitTree::erase(int32_t buffer) {
  size_t leaf = leaves_ + index(buffer);
  best_[leaf] = kNone;
  climb(best_, leaf);
  least_last_[leaf] = kNever;
  for (size_t i = leaf / 2; i > 0; i /= 2)
    least_last_[i] = std::min(least_last_[2 * i], least_last_[2 * i + 1]);
  size_t leaf_by_end = leaves_ + index(place_by_end_[index(buffer)]);
  best_by_end_[leaf_by_end] = kNone;
  climb(best_by_end_, leaf_by_end);
}

void FitTree::climb(Tree& tree, size_t leaf) const {
  for (size_t i = leaf / 2; i > 0; i /= 2) tree[i] = better(tree[2 * i], tree[2 * i + 1]);
}

int32_t FitTree::better(int32_t b, int32_t c) const {
  if (b == kNone || c == kNone) return std::max(b, c);
  return ranks_[index(c)] < ranks_[index(b)] ? c : b;
}

int32_t FitTree::best_of(const Tree& tree, int32_t begin, int32_t end) const {
  int32_t best = kNone;
  for (size_t a = leaves_ + index(begin), z = leaves_ + index(end); a < z; a /= 2, z /= 2) {
    if (a & 1) best = better(best, tree[a++]);
    if (z & 1) best = better(best, tree[--z]);
  }
  return best;
}

int32_t FitTree::best_inside(int32_t a, int32_t z) const {
  int32_t best = kNone;
  size_t begin = leaves_ + index(instance_.begins_at[index(a)]);
  size_t end = leaves_ + index(instance_.begins_at[index(z)]);
  for (; begin < end; begin /= 2, end /= 2) {
    if (begin & 1) descend(begin++, z, best);
    if (end & 1) descend(--end, z, best);
  }
  return best;
}

void FitTree::descend(size_t node, int32_t z, int32_t& best) const {
  if (least_last_[node] > z) return;
  int32_t candidate = best_[node];
  if (best != kNone && ranks_[index(candidate)] >= ranks_[index(best)]) return;
  if (instance_.last[index(candidate)] <= z) {
    best = candidate;
    return;
  }
  bool left_first = better(best_[2 * node], best_[2 * node + 1]) == best_[2 * node];
  descend(2 * node + (left_first ? 0 : 1), z, best);
  descend(2 * node + (left_first ? 1 : 0), z, best);
}

int32_t FitTree::best_from(int32_t a, int32_t z) const {
  return best_of(best_, instance_.begins_at[index(a)], before(a, z + 1));
}

int32_t FitTree::best_until(int32_t a, int32_t z) const {
  return best_of(best_by_end_, before_by_end(z, a), ends_at_[index(z) + 1]);
}

int32_t FitTree::best_exactly(int32_t a, int32_t z) const {
  return best_of(best_, before(a, z), before(a, z + 1));
}

int32_t FitTree::before(int32_t first, int32_t last) const {
  auto begin = instance_.last.begin();
  return static_cast<int32_t>(std::lower_bound(begin + instance_.begins_at[index(first)],
                                               begin + instance_.begins_at[index(first) + 1],
                                               last) -
                              begin);
}

int32_t FitTree::before_by_end(int32_t last, int32_t first) const {
  auto begin = by_end_.begin();
  auto is_before = [&](int32_t b, int32_t f) { return instance_.first[index(b)] < f; };
  return static_cast<int32_t>(std::lower_bound(begin + ends_at_[index(last)],
                                               begin + ends_at_[index(last) + 1], first,
                                               is_before) -
                              begin);
}

}  // namespace brim::memory::packing
