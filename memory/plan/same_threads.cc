#include "brim/memory/plan/same_threads.h"

#include <algorithm>
#include <utility>

#include "brim/base/bytes.h"
#include "brim/memory/plan/check_packing.h"

namespace brim::memory {
namespace {

constexpr int64_t kLeast = int64_t{64} << 10;   // bytes that are divided among threads
constexpr int64_t kCaches = int64_t{64} << 20;  // of buffers that begin, until a cache forgets
constexpr int kPasses = 3;                      // over all buffers; later ones gain little
constexpr size_t kNeighbours = 32;              // whose places are tried, before and after
constexpr int64_t kMostWork = 200'000'000;      // pairs of buffers

struct ByteRange {
  int64_t begin, end;
};

class Places {
 public:
  Places(std::span<const Lifetime> lifetimes, std::vector<int64_t> offsets, int64_t alignment,
         int threads)
      : lives_(lifetimes.begin(), lifetimes.end()),
        offsets_(std::move(offsets)),
        alignment_(alignment),
        threads_(threads) {
    for (Lifetime& life : lives_) life.size = round_up(life.size, alignment);
    for (size_t i = 0; i < lives_.size(); ++i)
      if (lives_[i].size >= kLeast) by_birth_.push_back(i);
    std::ranges::stable_sort(by_birth_, {}, [&](size_t i) { return lives_[i].lower; });
    by_death_ = by_birth_;
    std::ranges::stable_sort(by_death_, {}, [&](size_t i) { return lives_[i].upper; });
    find_ages();
  }

  int64_t work() const { return kPasses * std::ssize(by_birth_) * std::ssize(lives_); }
  const std::vector<int64_t>& offsets() const { return offsets_; }

  /// Of all buffers, what each gets from those before it.
  int64_t cost() {
    int64_t sum = 0;
    for (const size_t i : by_birth_) sum += from_before(i, offsets_[i]);
    return sum;
  }

  /// Moves each buffer to the place that costs it, and what comes after it, the least.
  void pass(int64_t height) {
    for (const size_t i : by_birth_) {
      int64_t least = cost_at(i, offsets_[i]);
      if (least == 0) continue;
      int64_t best = offsets_[i];
      for (const int64_t offset : candidates(i, height))
        if (const int64_t cost = cost_at(i, offset); cost < least) {
          least = cost;
          best = offset;
        }
      offsets_[i] = best;
    }
  }

 private:
  // Bytes that began before each buffer did, and before it ended.
  void find_ages() {
    born_.resize(lives_.size());
    died_.resize(lives_.size());
    std::vector<int64_t> until{0};
    for (const size_t i : by_birth_) until.push_back(until.back() + lives_[i].size);
    const auto age = [&](int64_t time) {
      const auto later =
          std::ranges::lower_bound(by_birth_, time, {}, [&](size_t i) { return lives_[i].lower; });
      return until[static_cast<size_t>(later - by_birth_.begin())];
    };
    for (const size_t i : by_birth_) {
      born_[i] = age(lives_[i].lower);
      died_[i] = age(lives_[i].upper);
    }
  }

  /// Calls body(j) for those that end before i begins, the last first, while it returns true.
  template <class Body>
  void for_earlier(size_t i, const Body& body) const {
    auto at = std::ranges::upper_bound(by_death_, lives_[i].lower, {},
                                       [&](size_t j) { return lives_[j].upper; });
    while (at != by_death_.begin()) {
      const size_t j = *--at;
      if (born_[i] - died_[j] >= kCaches || !body(j)) return;
    }
  }
  /// For those that begin after i ends, the first first.
  template <class Body>
  void for_later(size_t i, const Body& body) const {
    auto at = std::ranges::lower_bound(by_birth_, lives_[i].upper, {},
                                       [&](size_t j) { return lives_[j].lower; });
    for (; at != by_birth_.end(); ++at)
      if (born_[*at] - died_[i] >= kCaches || !body(*at)) return;
  }

  int64_t cost_at(size_t i, int64_t offset) { return from_before(i, offset) + to_after(i, offset); }
  int64_t from_before(size_t i, int64_t offset) {
    return cost_over(i, offset, [&](const auto& body) { for_earlier(i, body); });
  }
  int64_t to_after(size_t i, int64_t offset) {
    return cost_over(i, offset, [&](const auto& body) { for_later(i, body); });
  }

  /// Each byte counts with the nearest one that has it.
  template <class Walk>
  int64_t cost_over(size_t i, int64_t offset, const Walk& walk) {
    const Place own{offset, lives_[i].size};
    int64_t cost = 0;
    left_.assign(1, {offset, own.stretch(1, 1)});
    walk([&](size_t j) {
      const Place other{offsets_[j], lives_[j].size};
      cost += take(other, [&](ByteRange shared) { return between(shared, own, other); });
      return !left_.empty();
    });
    return cost;
  }

  struct Place {
    int64_t offset, size;
    int64_t stretch(int thread, int threads) const { return offset + size * thread / threads; }
  };

  /// Takes from what is left the bytes of a place; the sum of `cost` of those.
  template <class Cost>
  int64_t take(const Place& place, const Cost& cost) {
    const ByteRange other{place.offset, place.offset + place.size};
    int64_t sum = 0;
    rest_.clear();
    for (const ByteRange& range : left_) {
      const ByteRange shared{std::max(range.begin, other.begin), std::min(range.end, other.end)};
      if (shared.begin >= shared.end) {
        rest_.push_back(range);
        continue;
      }
      sum += cost(shared);
      if (range.begin < shared.begin) rest_.push_back({range.begin, shared.begin});
      if (shared.end < range.end) rest_.push_back({shared.end, range.end});
    }
    std::swap(left_, rest_);
    return sum;
  }

  /// Of shared bytes, those that the two places give to different threads.
  int64_t between(ByteRange shared, const Place& a, const Place& b) const {
    int64_t same = 0;
    for (int t = 0; t < threads_; ++t) {
      const int64_t begin =
          std::max({shared.begin, a.stretch(t, threads_), b.stretch(t, threads_)});
      const int64_t end =
          std::min({shared.end, a.stretch(t + 1, threads_), b.stretch(t + 1, threads_)});
      same += std::max<int64_t>(end - begin, 0);
    }
    return shared.end - shared.begin - same;
  }

  /// What no other buffer takes while i lives, in pieces that it fits into.
  std::vector<ByteRange> gaps(size_t i, int64_t height) const {
    std::vector<ByteRange> taken, gaps;
    for (size_t j = 0; j < lives_.size(); ++j)
      if (j != i && lives_[j].size > 0 && lives_[j].lower < lives_[i].upper &&
          lives_[i].lower < lives_[j].upper)
        taken.push_back({offsets_[j], offsets_[j] + lives_[j].size});
    std::ranges::sort(taken, {}, &ByteRange::begin);
    taken.push_back({height, height});
    int64_t at = 0;
    for (const ByteRange& range : taken) {
      if (range.begin - at >= lives_[i].size) gaps.push_back({at, range.begin});
      at = std::max(at, range.end);
    }
    return gaps;
  }

  /// The ends of the gaps, and the places of those before and after it: flush at either end, and
  /// with the same middle.
  std::vector<int64_t> candidates(size_t i, int64_t height) const {
    const std::vector<ByteRange> free = gaps(i, height);
    const int64_t size = lives_[i].size;
    std::vector<int64_t> offsets;
    const auto add = [&](int64_t offset) {
      const auto fits = [&](const ByteRange& gap) {
        return gap.begin <= offset && offset + size <= gap.end;
      };
      if (std::ranges::any_of(free, fits)) offsets.push_back(offset);
    };
    for (const ByteRange& gap : free) add(gap.begin), add(gap.end - size);
    size_t left = kNeighbours;
    const auto add_neighbour = [&](size_t j) {
      const int64_t more = lives_[j].size - size;  // bytes to spare, if any
      add(offsets_[j]), add(offsets_[j] + more);
      add(round_up(offsets_[j] + more / 2, alignment_));
      return --left > 0;
    };
    for_earlier(i, add_neighbour);
    left = kNeighbours;
    for_later(i, add_neighbour);
    return offsets;
  }

  std::vector<Lifetime> lives_;
  std::vector<int64_t> offsets_;
  int64_t alignment_;
  int threads_;
  std::vector<size_t> by_birth_, by_death_;  // those worth dividing
  std::vector<int64_t> born_, died_;
  std::vector<ByteRange> left_, rest_;
};

}  // namespace

int64_t bytes_between_threads(std::span<const Lifetime> lifetimes, std::span<const int64_t> offsets,
                              int threads) {
  return Places(lifetimes, {offsets.begin(), offsets.end()}, 1, threads).cost();
}

std::vector<int64_t> with_same_threads(std::span<const Lifetime> lifetimes,
                                       std::span<const int64_t> offsets, int64_t height,
                                       int64_t alignment, int threads) {
  std::vector<int64_t> best(offsets.begin(), offsets.end());
  Places places(lifetimes, best, alignment, threads);
  if (threads == 1 || places.work() > kMostWork) return best;
  int64_t least = places.cost();
  for (int pass = 0; pass < kPasses && least > 0; ++pass) {
    places.pass(height);
    const int64_t cost = places.cost();
    if (cost >= least) break;
    least = cost;
    best = places.offsets();
  }
  check_packing(lifetimes, best, height, alignment);
  return best;
}

}  // namespace brim::memory
