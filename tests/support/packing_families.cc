#include "brim/tests/support/packing_families.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "brim/base/random.h"

namespace brim::testing {
namespace {

using memory::Lifetime;

constexpr int64_t kTick = 64;  // of sizes

/// From `low` to `high`, each power of two as likely.
int64_t log_uniform(RandomStream& random, double low, double high) {
  return static_cast<int64_t>(low * std::pow(high / low, random.uniform()));
}

int64_t below(RandomStream& random, int64_t n) {
  return static_cast<int64_t>(random.below(static_cast<uint64_t>(n)));
}

/// A stream of its own for each family, size and seed.
RandomStream stream_of(const char* family, int64_t buffers, uint64_t seed) {
  return RandomStream(derive(RandomKey{seed}, family), static_cast<uint64_t>(buffers));
}

void shuffle(std::vector<Lifetime>& lifetimes, RandomStream& random) {
  for (size_t i = lifetimes.size(); i > 1; --i)
    std::swap(lifetimes[i - 1], lifetimes[random.below(i)]);
}

struct Piece {
  int64_t left, right, bottom, top;
  int64_t width() const { return right - left; }
  int64_t height() const { return top - bottom; }
};

/// Cuts a piece and appends the parts; false where it is too small.
bool cut(const Piece& p, RandomStream& random, std::vector<Piece>& parts) {
  if (p.width() < 8 || p.height() < 8) return false;
  auto within = [&](int64_t from, int64_t length) { return from + 1 + below(random, length - 1); };
  uint64_t way = random.below(5);
  if (way < 2) {
    int64_t x = within(p.left, p.width());
    parts.push_back({p.left, x, p.bottom, p.top});
    parts.push_back({x, p.right, p.bottom, p.top});
  } else if (way < 4) {
    int64_t y = within(p.bottom, p.height());
    parts.push_back({p.left, p.right, p.bottom, y});
    parts.push_back({p.left, p.right, y, p.top});
  } else {
    int64_t x1 = within(p.left, p.width() / 2), x2 = within(x1, p.right - x1);
    int64_t y1 = within(p.bottom, p.height() / 2), y2 = within(y1, p.top - y1);
    parts.push_back({p.left, x2, p.bottom, y1});
    parts.push_back({x2, p.right, p.bottom, y2});
    parts.push_back({x1, p.right, y2, p.top});
    parts.push_back({p.left, x1, y1, p.top});
    parts.push_back({x1, x2, y1, y2});
  }
  return true;
}

}  // namespace

PackingProblem random_intervals(int64_t buffers, uint64_t seed) {
  RandomStream random = stream_of("random_intervals", buffers, seed);
  PackingProblem problem;
  const int64_t ticks = 4 * buffers;
  for (int64_t i = 0; i < buffers; ++i) {
    int64_t lower = below(random, ticks);
    int64_t length = log_uniform(random, 1, static_cast<double>(ticks));
    problem.lifetimes.push_back(
        {lower, std::min(lower + length, ticks) + 1, kTick * log_uniform(random, 1, 1 << 14)});
  }
  return problem;
}

PackingProblem training_step(int64_t buffers, uint64_t seed) {
  RandomStream random = stream_of("training_step", buffers, seed);
  PackingProblem problem;
  auto add = [&](int64_t lower, int64_t upper, int64_t size) {
    problem.lifetimes.push_back({lower, upper, kTick * size});
  };
  const int64_t layers = std::max<int64_t>(1, buffers / 8), end = 8 * layers + 4;
  int64_t activation = 1 << 14;
  for (int64_t k = 0; k < layers; ++k) {
    if (random.below(static_cast<uint64_t>(layers / 4 + 1)) == 0)
      activation = log_uniform(random, 1 << 8, 1 << 14);
    int64_t parameter = log_uniform(random, 8, 1 << 13);
    int64_t forward = 4 * k, backward = end - 4 * k - 4;
    add(0, end, parameter);
    add(0, end, parameter);                                      // momentum
    add(backward, end, parameter);                               // gradient
    add(forward, backward + 2, activation);                      // saved
    add(forward, backward + 1, activation / 8 + 1);              // saved, smaller: a mask, a mean
    add(forward, forward + 2, log_uniform(random, 1, 1 << 13));  // scratch
    add(backward, backward + 2, log_uniform(random, 1, 1 << 13));
    add(backward - 1, backward + 3, activation);  // gradient of the output
  }
  return problem;
}

PackingProblem inference(int64_t buffers, uint64_t seed) {
  RandomStream random = stream_of("inference", buffers, seed);
  PackingProblem problem;
  for (int64_t i = 0; i < buffers; ++i) {
    // One in eight is read again later on, by a skip.
    int64_t length = random.below(8) == 0 ? log_uniform(random, 4, 64) : 2;
    problem.lifetimes.push_back(
        {i, std::min(i + length, buffers + 1), kTick * log_uniform(random, 16, 1 << 12)});
  }
  return problem;
}

PackingProblem cut_rectangle(int64_t buffers, uint64_t seed) {
  RandomStream random = stream_of("cut_rectangle", buffers, seed);
  const int64_t optimum = int64_t{1} << 20;
  std::vector<Piece> pieces{{0, 64 * buffers + 64, 0, optimum}}, parts;
  while (std::ssize(pieces) < buffers) {
    // The widest of three in turn, so that no piece stays large.
    size_t chosen = random.below(pieces.size());
    for (int i = 0; i < 2; ++i) {
      size_t other = random.below(pieces.size());
      if (pieces[other].width() > pieces[chosen].width()) chosen = other;
    }
    parts.clear();
    if (!cut(pieces[chosen], random, parts)) continue;
    pieces[chosen] = pieces.back();
    pieces.pop_back();
    pieces.insert(pieces.end(), parts.begin(), parts.end());
  }
  PackingProblem problem{.optimum = optimum * kTick};
  for (const Piece& p : pieces) problem.lifetimes.push_back({p.left, p.right, kTick * p.height()});
  shuffle(problem.lifetimes, random);
  return problem;
}

const std::vector<PackingFamily>& packing_families() {
  static const std::vector<PackingFamily> families{{"random_intervals", random_intervals},
                                                   {"training_step", training_step},
                                                   {"inference", inference},
                                                   {"cut_rectangle", cut_rectangle}};
  return families;
}

}  // namespace brim::testing
