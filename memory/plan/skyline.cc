#include "brim/memory/plan/skyline.h"

#include <algorithm>
#include <functional>

namespace brim::memory::packing {
namespace {

constexpr int64_t kWall = std::numeric_limits<int64_t>::max();

size_t index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

Skyline::Skyline(const Instance& instance)
    : instance_(instance), tree_(instance), offsets_(instance.size.size()) {}

void Skyline::reset(std::span<const float> ranks) {
  size_t sections = instance_.live.size();
  ranks_ = ranks;
  tree_.reset(ranks);
  end_.assign(sections, 0);
  begin_.assign(sections + 1, -1);
  height_.assign(sections, 0);
  heap_.clear();
  placed_ = 0;
  add({0, 0, instance_.sections()});
}

int64_t Skyline::pack(std::span<const float> ranks, const SkylineOptions& options) {
  reset(ranks);
  int64_t top = 0, buffers = instance_.buffers();
  while (placed_ < buffers) {
    Stretch low = pop_lowest();
    int32_t b = choose(low, options.edge_bonus);
    if (b == FitTree::kNone) {
      low.height = std::min(height_before(low.begin), height_from(low.end));
      add(low);
      continue;
    }
    int64_t above = low.height + instance_.size[index(b)];
    if (above > options.limit) return kGaveUp;
    top = std::max(top, above);
    offsets_[index(b)] = low.height;
    tree_.erase(b);
    ++placed_;
    int32_t first = instance_.first[index(b)], last = instance_.last[index(b)];
    if (low.begin < first) add({low.height, low.begin, first});
    if (last < low.end) add({low.height, last, low.end});
    add({above, first, last});
  }
  return top;
}

Skyline::Stretch Skyline::pop_lowest() {
  while (true) {
    std::ranges::pop_heap(heap_, std::greater{});
    Stretch low = heap_.back();
    heap_.pop_back();
    if (end_[index(low.begin)] != low.end || height_[index(low.begin)] != low.height) continue;
    remove(low.begin);
    return low;
  }
}

int32_t Skyline::choose(const Stretch& stretch, float edge_bonus) const {
  int32_t best = tree_.best_inside(stretch.begin, stretch.end);
  if (best == FitTree::kNone || edge_bonus == 0) return best;
  float score = ranks_[index(best)];
  auto consider = [&](int32_t b, float bonus) {
    if (b == FitTree::kNone || ranks_[index(b)] - bonus >= score) return;
    best = b;
    score = ranks_[index(b)] - bonus;
  };
  consider(tree_.best_from(stretch.begin, stretch.end), edge_bonus);
  consider(tree_.best_until(stretch.begin, stretch.end), edge_bonus);
  consider(tree_.best_exactly(stretch.begin, stretch.end), 2 * edge_bonus);
  return best;
}

/// Joins it with neighbours of the same height.
void Skyline::add(Stretch stretch) {
  if (height_before(stretch.begin) == stretch.height) {
    int32_t begin = begin_[index(stretch.begin)];
    remove(begin);
    stretch.begin = begin;
  }
  if (height_from(stretch.end) == stretch.height) {
    int32_t end = end_[index(stretch.end)];
    remove(stretch.end);
    stretch.end = end;
  }
  end_[index(stretch.begin)] = stretch.end;
  begin_[index(stretch.end)] = stretch.begin;
  height_[index(stretch.begin)] = stretch.height;
  heap_.push_back(stretch);
  std::ranges::push_heap(heap_, std::greater{});
}

void Skyline::remove(int32_t begin) {
  begin_[index(end_[index(begin)])] = -1;
  end_[index(begin)] = 0;
}

int64_t Skyline::height_before(int32_t section) const {
  int32_t begin = begin_[index(section)];
  return begin < 0 ? kWall : height_[index(begin)];
}

int64_t Skyline::height_from(int32_t section) const {
  bool begins = section < instance_.sections() && end_[index(section)] > 0;
  return begins ? height_[index(section)] : kWall;
}

}  // namespace brim::memory::packing
