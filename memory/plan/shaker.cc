#include "brim/memory/plan/shaker.h"

#include <cmath>
#include <utility>

#include "brim/memory/plan/orders.h"

namespace brim::memory::packing {

Shaker::Shaker(const Instance& instance, std::vector<float> ranks, float edge_bonus, int64_t height,
               int64_t capacity, RandomKey key)
    : skyline_(instance),
      ranks_(std::move(ranks)),
      edge_bonus_(edge_bonus),
      height_(height),
      capacity_(capacity),
      random_(key) {}

Outcome Shaker::run(int64_t nodes) {
  for (allowed_ += nodes; allowed_ > 0 && height_ > capacity_;) shake();
  return outcome();
}

void Shaker::shake() {
  shaken_ = ranks_;
  // From a tenth of all ranks to a ten thousandth: which is best depends on the problem.
  add_noise(shaken_, std::pow(10.f, -random_.uniform(1, 4)), random_);
  int64_t height = skyline_.pack(shaken_, {.edge_bonus = edge_bonus_, .limit = height_ - 1});
  allowed_ -= skyline_.placed();
  if (height == Skyline::kGaveUp) return;
  height_ = height;
  offsets_ = skyline_.offsets();
  std::swap(ranks_, shaken_);
}

}  // namespace brim::memory::packing
