#include "brim/memory/plan/recompute_copies.h"

namespace brim::memory::recompute {

void Copies::begin_step() {
  now_ = waited_ = out_free_at_ = back_free_at_ = 0;
  out_count_ = 0;
}

int32_t Copies::copy_out(int32_t v) {
  const int32_t left = out_count_ == kUnderWay ? finish_oldest() : -1;
  out_[at(out_count_++)] = {v, copied(v, out_free_at_)};
  return left;
}

int32_t Copies::finish_oldest() {
  if (out_count_ == 0) return -1;
  const auto [v, end] = out_[0];
  wait_until(end);
  std::shift_left(out_.begin(), out_.begin() + out_count_--, 1);
  return v;
}

}  // namespace brim::memory::recompute
