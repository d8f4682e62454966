#include "brim/memory/plan/recompute_copies.h"

namespace brim::memory::recompute {

void Copies::begin_step() {
  now_ = waited_ = 0;
  out_ = back_ = {};
}

void Copies::begin(int32_t v, Stream& stream) {
  stream.free_at = std::max(stream.free_at, now_) +
                   static_cast<double>(graph_.bytes[at(v)]) / graph_.host_bytes_per_second;
  end_[at(v)] = stream.free_at;
  stream.values[stream.count++] = v;
}

void Copies::finish(int32_t v, Stream& stream) {
  int32_t* const end = stream.values + stream.count;
  int32_t* const found = std::find(stream.values, end, v);
  if (found == end) return;  // it was waited for already
  std::shift_left(found, end, 1);
  --stream.count;
  if (end_[at(v)] <= now_) return;
  waited_ += end_[at(v)] - now_;
  now_ = end_[at(v)];
}

int32_t Copies::send(int32_t v) {
  const int32_t left = out_.count == kUnderWay ? finish_sending() : -1;
  begin(v, out_);
  return left;
}

int32_t Copies::finish_sending() {
  if (out_.count == 0) return -1;
  const int32_t oldest = out_.values[0];
  finish(oldest, out_);
  return oldest;
}

void Copies::fetch(int32_t v) {
  if (back_.count == kUnderWay) finish(back_.values[0], back_);
  begin(v, back_);
}

void Copies::wait_for(int32_t v) { finish(v, back_); }

}  // namespace brim::memory::recompute
