// The largest of scores that all grow with time, each at a speed of its own:
//
//   score(i) = speed(i) * (now - since(i) + 1).
//
// A kinetic tournament (Basch, Guibas and Hershberger, "Data structures for mobile data", 1997): a
// binary tree whose inner nodes know who wins below them and until when that holds, so that only
// what may have changed is compared again. A change costs O(log n); a winner O(log n) for each
// comparison that time has overturned since. For scores that do not grow a heap is enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace brim::autograd {

class Tournament {
 public:
  static constexpr int kNobody = -1;

  /// Enters candidate `i`, from 0, or changes it. `speed` is above 0 and finite.
  void set(int i, double speed, int64_t since);
  void remove(int i);
  bool has(int i) const;
  /// The candidate with the highest score, of equal ones the one with the lower number; `kNobody`
  /// where there is none. `now` must not go back, nor be before any `since`.
  int winner(int64_t now);
  /// Nodes that were compared so far.
  int64_t comparisons() const { return comparisons_; }

 private:
  struct Candidate {
    double speed = 0;  // 0: not there
    int64_t since = 0;
  };
  double score(int i) const;
  /// When `later` first scores higher than `first`, which does now or is equal.
  int64_t overtaken_at(int first, int later) const;
  void grow(size_t leaves);
  void compare(size_t node);
  void advance(size_t node);
  void climb(size_t leaf);

  std::vector<Candidate> candidates_;  // as many as there are leaves, a power of two
  std::vector<int> winners_;           // of inner nodes from 1, then of leaves
  std::vector<int64_t> until_;  // of inner nodes: the first moment at which it may be another
  int64_t now_ = 0, comparisons_ = 0;
};

}  // namespace brim::autograd
