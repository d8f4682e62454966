#include "brim/memory/plan/bounds.h"

#include <algorithm>

namespace brim::memory::packing {

template <class Int>
Bounds<Int>::Bounds(const Instance& instance, Int capacity)
    : instance_(instance),
      capacity_(capacity),
      size_(instance.size.begin(), instance.size.end()),
      bound_(size_.size()),
      supported_(size_.size(), 1),
      placed_(size_.size(), 0),
      waiting_(instance.live.size()),
      lowest_(instance.live.size(), -1),
      members_at_(instance.live.size() + 1),
      floor_(instance.live.size(), 0),
      failures_(instance.live.size(), 1),
      queued_(instance.live.size(), 0) {
  for (int64_t live : instance.live) threshold_.push_back(capacity - static_cast<Int>(live));
  for (size_t b = 0; b < size_.size(); ++b)
    for (int32_t s = instance.first[b]; s < instance.last[b]; ++s) ++members_at_[at(s) + 1];
  for (size_t s = 1; s < members_at_.size(); ++s) members_at_[s] += members_at_[s - 1];
  members_.resize(members_at_.back());
  for (size_t b = 0; b < size_.size(); ++b)
    for (int32_t s = instance.first[b]; s < instance.last[b]; ++s)
      members_[members_at_[at(s)] + at(waiting_[at(s)]++)] = static_cast<int32_t>(b);
}

template <class Int>
bool Bounds<Int>::propagate_all() {
  for (int32_t s = 0; s < instance_.sections(); ++s) enqueue(s);
  return propagate();
}

template <class Int>
bool Bounds<Int>::are_twins(int32_t b, int32_t c) const {
  return size_[at(b)] == size_[at(c)] && instance_.first[at(b)] == instance_.first[at(c)] &&
         instance_.last[at(b)] == instance_.last[at(c)];
}

template <class Int>
bool Bounds<Int>::place(int32_t b) {
  levels_.push_back({b, false, bound_changes_.size(), floor_changes_.size()});
  placed_[at(b)] = 1;
  leave_sections(b);
  Int top = bound_[at(b)] + size_[at(b)];
  for_each_beside(b, [&](int32_t c) {
    if (bound_[at(c)] > top || (bound_[at(c)] == top && supported_[at(c)])) return;
    if (bound_[at(c)] < top && !are_twins(b, c)) levels_.back().contested = true;
    raise(c, top, true);
  });
  return propagate();
}

/// Takes b from the lists of its sections; what is behind it moves up, in the same order.
template <class Int>
void Bounds<Int>::leave_sections(int32_t b) {
  for (int32_t s = instance_.first[at(b)]; s < instance_.last[at(b)]; ++s) {
    int32_t* begin = members_.data() + members_at_[at(s)];
    int32_t* end = begin + waiting_[at(s)];
    int32_t* place = std::find(begin, end, b);
    std::copy(place + 1, end, place);
    end[-1] = b;  // where `unplace` finds it
    --waiting_[at(s)];
    threshold_[at(s)] += size_[at(b)];
    enqueue(s);
  }
}

template <class Int>
void Bounds<Int>::unplace() {
  Level level = levels_.back();
  levels_.pop_back();
  for (; bound_changes_.size() > level.bound_changes; bound_changes_.pop_back()) {
    const BoundChange& change = bound_changes_.back();
    bound_[at(change.buffer)] = change.bound;
    supported_[at(change.buffer)] = change.supported;
  }
  for (; floor_changes_.size() > level.floor_changes; floor_changes_.pop_back()) {
    const FloorChange& change = floor_changes_.back();
    floor_[at(change.section)] = change.floor;
    lowest_[at(change.section)] = change.lowest;
  }
  placed_[at(level.buffer)] = 0;
  for (int32_t s = instance_.first[at(level.buffer)]; s < instance_.last[at(level.buffer)]; ++s) {
    ++waiting_[at(s)];
    threshold_[at(s)] -= size_[at(level.buffer)];
  }
}

template <class Int>
bool Bounds<Int>::postpone(int32_t b) {
  Int bound = bound_[at(b)], top = bound + size_[at(b)], rise = kNoFloor;
  for_each_beside(b, [&](int32_t c) {
    if (bound_[at(c)] < top && !are_twins(b, c))
      rise = std::min<Int>(rise, bound_[at(c)] + size_[at(c)]);
  });
  if (rise == kNoFloor) return false;
  // Twins are alike: if none of them can be here first, another cannot either.
  for (int32_t c = b; c >= 0 && are_twins(b, c); --c)
    if (!placed_[at(c)]) raise(c, rise, false);
  for (int32_t c = b + 1; c < instance_.buffers() && are_twins(b, c); ++c)
    if (!placed_[at(c)]) raise(c, rise, false);
  return propagate();
}

template <class Int>
void Bounds<Int>::raise(int32_t b, Int bound, bool supported) {
  bound_changes_.push_back({bound_[at(b)], b, supported_[at(b)] != 0});
  supported_[at(b)] = supported;
  if (bound_[at(b)] == bound) return;
  bound_[at(b)] = bound;
  work_ += instance_.last[at(b)] - instance_.first[at(b)];
  if (bound + size_[at(b)] > capacity_) too_high_ = true;
  // In other sections nothing follows from a bound that stays among those which can lie lowest.
  for (int32_t s = instance_.first[at(b)]; s < instance_.last[at(b)]; ++s)
    if (bound > threshold_[at(s)] || lowest_[at(s)] == b) enqueue(s);
}

template <class Int>
void Bounds<Int>::enqueue(int32_t section) {
  if (queued_[at(section)]) return;
  queued_[at(section)] = 1;
  queue_.push_back(section);
}

/// To the fixed point.
template <class Int>
bool Bounds<Int>::propagate() {
  bool fits = !too_high_;
  for (size_t head = 0; fits && head < queue_.size(); ++head) {
    int32_t section = queue_[head];
    queued_[at(section)] = 0;
    fits = tighten(section) && !too_high_;
    if (!fits) ++failures_[at(section)];
  }
  for (int32_t section : queue_) queued_[at(section)] = 0;
  queue_.clear();
  too_high_ = false;
  return fits;
}

template <class Int>
bool Bounds<Int>::tighten(int32_t section) {
  if (waiting_[at(section)] == 0) {
    set_floor(section, kNoFloor, -1);
    return true;
  }
  sort_waiting(section);
  work_ += waiting_[at(section)];
  const Int threshold = threshold_[at(section)];
  if (line_.front().bound > threshold) return false;
  Int rise = kNoFloor;
  size_t i = 0;
  for (; i < line_.size() && line_[i].bound <= threshold; ++i)
    rise = std::min<Int>(rise, line_[i].bound + size_[at(line_[i].buffer)]);
  queued_[at(section)] = 1;  // what is raised here is seen to here
  for (; i < line_.size() && line_[i].bound < rise; ++i) {
    raise(line_[i].buffer, rise, false);
    line_[i].bound = rise;
  }
  queued_[at(section)] = 0;
  Int above = 0;
  for (i = line_.size(); i-- > 0;) {
    above += size_[at(line_[i].buffer)];
    if (line_[i].bound + above > capacity_) return false;
  }
  set_floor(section, line_.front().bound, line_.front().buffer);
  return true;
}

/// Fills `line_`. The order is kept for the next time, when little will have changed.
template <class Int>
void Bounds<Int>::sort_waiting(int32_t section) {
  int32_t* members = members_.data() + members_at_[at(section)];
  line_.resize(at(waiting_[at(section)]));
  for (size_t i = 0; i < line_.size(); ++i) {
    Waiting moved{bound_[at(members[i])], members[i]};
    size_t k = i;
    for (; k > 0 && line_[k - 1].bound > moved.bound; --k) line_[k] = line_[k - 1];
    line_[k] = moved;
  }
  for (size_t i = 0; i < line_.size(); ++i) members[i] = line_[i].buffer;
}

template <class Int>
void Bounds<Int>::set_floor(int32_t section, Int floor, int32_t lowest) {
  if (floor_[at(section)] == floor && lowest_[at(section)] == lowest) return;
  floor_changes_.push_back({floor_[at(section)], section, lowest_[at(section)]});
  floor_[at(section)] = floor;
  lowest_[at(section)] = lowest;
}

template class Bounds<int32_t>;
template class Bounds<int64_t>;

}  // namespace brim::memory::packing
