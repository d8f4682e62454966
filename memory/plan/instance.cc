#include "brim/memory/plan/instance.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace brim::memory::packing {
namespace {

using Ids = std::vector<int32_t>;  // positions in the list that is packed

// Splitting and taking from the bottom can go on for n rounds of n buffers (nested lifetimes with
// something beside each). What is left after the work of this many full rounds is not split.
constexpr int64_t kRounds = 64;

/// Buffers in one stretch of time, by `lower`, above `base`.
struct Part {
  Ids ids;
  int64_t base = 0;
};

/// The sections in which the buffers of a part live, in the order of its ids.
struct Spans {
  std::vector<int32_t> first, last;
  int32_t sections = 0;
};

class Reducer {
 public:
  Reducer(std::span<const Lifetime> lifetimes, std::span<const int64_t> sizes)
      : lifetimes_(lifetimes), size_(sizes.begin(), sizes.end()) {
    int64_t unit =
        std::accumulate(size_.begin(), size_.end(), int64_t{0}, std::gcd<int64_t, int64_t>);
    result_.unit = std::max<int64_t>(unit, 1);
    for (int64_t& size : size_) size /= result_.unit;
    result_.offsets.resize(size_.size());
  }

  Reduced run() {
    Part all;
    for (size_t i = 0; i < size_.size(); ++i)
      if (size_[i] > 0) all.ids.push_back(static_cast<int32_t>(i));
    std::ranges::stable_sort(all.ids, {}, [&](int32_t id) { return life(id).lower; });
    int64_t work = kRounds * static_cast<int64_t>(all.ids.size());
    std::vector<Part> parts = split(all);
    while (!parts.empty()) {
      Part part = std::move(parts.back());
      parts.pop_back();
      work -= static_cast<int64_t>(part.ids.size());
      Part rest = take_whole(part, spans_of(part.ids));
      if (rest.ids.size() == part.ids.size() || work < 0) {
        add_component(rest);
        continue;
      }
      for (Part& piece : split(rest)) parts.push_back(std::move(piece));
    }
    return std::move(result_);
  }

 private:
  const Lifetime& life(int32_t id) const { return lifetimes_[static_cast<size_t>(id)]; }
  int64_t size(int32_t id) const { return size_[static_cast<size_t>(id)]; }

  /// The pieces of `part` between which nothing lives on.
  std::vector<Part> split(const Part& part) const {
    std::vector<Part> pieces;
    int64_t until = 0;
    for (int32_t id : part.ids) {
      if (pieces.empty() || life(id).lower >= until) {
        pieces.push_back({{}, part.base});
        until = life(id).upper;
      }
      until = std::max(until, life(id).upper);
      pieces.back().ids.push_back(id);
    }
    return pieces;
  }

  /// A section begins where a buffer does after another has ended.
  Spans spans_of(const Ids& ids) const {
    std::vector<int32_t> ends(ids.size());  // by `upper`
    std::iota(ends.begin(), ends.end(), 0);
    auto upper = [&](int32_t i) { return life(ids[static_cast<size_t>(i)]).upper; };
    std::ranges::sort(ends, {}, upper);
    Spans spans{std::vector<int32_t>(ids.size()), std::vector<int32_t>(ids.size()), 0};
    bool ended = true;
    auto end = ends.begin();
    for (size_t i = 0; i < ids.size(); ++i) {
      for (; upper(*end) <= life(ids[i]).lower; ++end, ended = true)
        spans.last[static_cast<size_t>(*end)] = spans.sections;
      if (std::exchange(ended, false)) ++spans.sections;
      spans.first[i] = spans.sections - 1;
    }
    for (; end != ends.end(); ++end) spans.last[static_cast<size_t>(*end)] = spans.sections;
    return spans;
  }

  /// Gives offsets to those that live in all sections. What is left lies above them.
  Part take_whole(const Part& part, const Spans& spans) {
    Part rest{{}, part.base};
    for (size_t i = 0; i < part.ids.size(); ++i) {
      if (spans.first[i] > 0 || spans.last[i] < spans.sections) {
        rest.ids.push_back(part.ids[i]);
        continue;
      }
      result_.offsets[static_cast<size_t>(part.ids[i])] = rest.base;
      rest.base += size(part.ids[i]);
    }
    result_.bound = std::max(result_.bound, rest.base);
    return rest;
  }

  void add_component(const Part& part) {
    if (part.ids.empty()) return;
    Spans spans = spans_of(part.ids);
    std::vector<int32_t> order(part.ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int32_t i) {
      auto k = static_cast<size_t>(i);
      return std::tuple(spans.first[k], spans.last[k], size(part.ids[k]), i);
    });
    Instance instance;
    for (int32_t i : order) {
      auto k = static_cast<size_t>(i);
      const Lifetime& l = life(part.ids[k]);
      instance.first.push_back(spans.first[k]);
      instance.last.push_back(spans.last[k]);
      instance.size.push_back(size(part.ids[k]));
      instance.duration.push_back(static_cast<double>(l.upper) - static_cast<double>(l.lower));
      instance.origin.push_back(part.ids[k]);
    }
    add_sections(instance, spans.sections);
    int64_t live = *std::ranges::max_element(instance.live);
    result_.bound = std::max(result_.bound, part.base + live);
    result_.components.push_back({std::move(instance), part.base});
  }

  static void add_sections(Instance& instance, int32_t sections) {
    std::vector<int64_t> change(static_cast<size_t>(sections) + 1);
    instance.begins_at.assign(static_cast<size_t>(sections) + 1, 0);
    for (size_t i = 0; i < instance.size.size(); ++i) {
      change[static_cast<size_t>(instance.first[i])] += instance.size[i];
      change[static_cast<size_t>(instance.last[i])] -= instance.size[i];
      ++instance.begins_at[static_cast<size_t>(instance.first[i]) + 1];
    }
    change.pop_back();
    instance.live.resize(change.size());
    std::partial_sum(change.begin(), change.end(), instance.live.begin());
    std::partial_sum(instance.begins_at.begin(), instance.begins_at.end(),
                     instance.begins_at.begin());
  }

  std::span<const Lifetime> lifetimes_;
  std::vector<int64_t> size_;  // in units
  Reduced result_;
};

}  // namespace

Reduced reduce(std::span<const Lifetime> lifetimes, std::span<const int64_t> sizes) {
  return Reducer(lifetimes, sizes).run();
}

}  // namespace brim::memory::packing
