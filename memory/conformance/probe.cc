#include "brim/memory/conformance/probe.h"

#include <algorithm>

#include "brim/base/bytes.h"

namespace brim::memory::conformance {

Probe::Probe(const MakePlanner& make_planner, const ConformanceOptions& options, const Pages& pages,
             Pieces pieces)
    : capacity_(options.capacity),
      clocks_(std::make_shared<StreamClocks>(options.streams)),
      source_(options.capacity, pages, pieces,
              [this](uintptr_t address, int64_t bytes) { return objection(address, bytes); }) {
  source_.set_stream_order(clocks_);
  planner_ = make_planner(source_);
  expect<ConformanceError>(planner_ != nullptr, "conformance", "expected a planner, got none");
  name_ = planner_->name();
  check_numbers("its start");
}

bool Probe::place(int64_t bytes, int stream) {
  static const Site kNobody;
  bytes = round_up(bytes, kAlignment);
  int64_t before = reserved();
  Placement placement = planner_->place({.bytes = bytes, .stream = stream, .site = &kNobody});
  if (placement.address == nullptr) {
    check_numbers("a refusal");
    if (reserved() > before)
      fail("holds {} bytes more after it refused {}", reserved() - before, bytes);
    return false;
  }
  Held fresh{placement, bytes, stream, ++marks_ << 32};
  check_placement(fresh);
  check_streams(fresh);
  ranges_.emplace(fresh.address(), fresh.end());
  held_.push_back(fresh);
  live_ += bytes;
  write(fresh);
  check_numbers("a request");
  return true;
}

void Probe::check_placement(const Held& fresh) const {
  if (fresh.address() % static_cast<uintptr_t>(kAlignment) != 0)
    fail("placed {} bytes at {:#x}, off a {}-byte boundary", fresh.bytes, fresh.address(),
         kAlignment);
  if (!source_.holds(fresh.address(), fresh.bytes))
    fail("placed {} bytes at {:#x}, outside of what the source gave it", fresh.bytes,
         fresh.address());
  auto above = ranges_.lower_bound(fresh.address());
  auto refuse = [&](const auto& other) {
    fail("placed {} bytes at {:#x}, over {} at {:#x} that are held", fresh.bytes, fresh.address(),
         other.second - other.first, other.first);
  };
  if (above != ranges_.end() && above->first < fresh.end()) refuse(*above);
  if (above != ranges_.begin())
    if (auto below = std::prev(above); below->second > fresh.address()) refuse(*below);
}

void Probe::check_streams(const Held& fresh) {
  for (const Released& old : released_)
    if (old.begin < fresh.end() && fresh.address() < old.end &&
        !clocks_->is_after(fresh.stream, old.stream, old.time))
      fail("placed {} bytes for stream {} where work of stream {} is not done, and did not wait",
           fresh.bytes, fresh.stream, old.stream);
  take_out_of_released(fresh.address(), fresh.end());
}

void Probe::take_out_of_released(uintptr_t begin, uintptr_t end) {
  std::vector<Released> rest;
  for (const Released& old : released_) {
    if (old.begin < std::min(old.end, begin))
      rest.push_back({old.begin, std::min(old.end, begin), old.stream, old.time});
    if (std::max(old.begin, end) < old.end)
      rest.push_back({std::max(old.begin, end), old.end, old.stream, old.time});
  }
  released_ = std::move(rest);
}

void Probe::release(size_t i) {
  std::swap(held_[i], held_.back());
  Held old = held_.back();
  check_bytes(old);
  held_.pop_back();
  ranges_.erase(old.address());
  live_ -= old.bytes;
  released_.push_back({old.address(), old.end(), old.stream, clocks_->work(old.stream)});
  planner_->release(old.placement);
  check_numbers("a release");
}

void Probe::release_all() {
  while (!held_.empty()) release(held_.size() - 1);
}

void Probe::empty_cache() {
  planner_->empty_cache();
  check_numbers("empty_cache");
}

void Probe::begin_step() {
  planner_->begin_step();
  check_numbers("begin_step");
}

void Probe::end_step() {
  planner_->end_step();
  check_numbers("end_step");
}

void Probe::begin_section(const Section& section) {
  planner_->begin_section(section);
  check_numbers("begin_section");
}

void Probe::end_section() {
  planner_->end_section();
  check_numbers("end_section");
}

void Probe::set_capacity(int64_t bytes) {
  capacity_ = bytes;
  source_.set_capacity(bytes);
}

void Probe::end() {
  planner_.reset();
  if (!source_.breach().empty()) fail("{}", source_.breach());
  if (reserved() != 0) fail("keeps {} bytes of the source when it is destroyed", reserved());
}

void Probe::check_numbers(const char* after) {
  if (!source_.breach().empty()) fail("{}", source_.breach());
  if (source_.capacity() != capacity_) fail("changed the capacity of the source in {}", after);
  int64_t cached = planner_->cached(), fragmented = planner_->fragmented();
  if (cached < 0 || fragmented < 0 || reserved() != live_ + cached + fragmented)
    fail("breaks reserved = live + cached + fragmented after {}: {} = {} + {} + {}", after,
         reserved(), live_, cached, fragmented);
  if (live_ == 0 && fragmented != 0)
    fail("says after {} that {} bytes are lost inside placements, of which there are none", after,
         fragmented);
  history_.push_back(reserved());
}

std::string Probe::objection(uintptr_t address, int64_t bytes) {
  uintptr_t end = address + static_cast<uintptr_t>(bytes);
  auto above = ranges_.lower_bound(address);
  bool held = above != ranges_.end() && above->first < end;
  if (held || (above != ranges_.begin() && std::prev(above)->second > address))
    return fmt::format("gave back {} bytes at {:#x} that are held", bytes, address);
  for (const Released& old : released_)
    if (old.begin < end && address < old.end && !clocks_->is_done(old.stream, old.time))
      return fmt::format("gave back {} bytes before the work of stream {} on them was done", bytes,
                         old.stream);
  take_out_of_released(address, end);
  return "";
}

// Every line starts with a number of its own.
void Probe::write(const Held& held) const {
  if (!source_.has_bytes()) return;
  auto* words = static_cast<uint64_t*>(held.placement.address);
  for (int64_t i = 0; i < held.bytes / 8; i += 8) words[i] = held.mark + static_cast<uint64_t>(i);
}

void Probe::check_bytes(const Held& held) const {
  if (!source_.has_bytes()) return;
  const auto* words = static_cast<const uint64_t*>(held.placement.address);
  for (int64_t i = 0; i < held.bytes / 8; i += 8)
    if (words[i] != held.mark + static_cast<uint64_t>(i))
      fail("changed a byte at {:#x} while {} bytes there were held", held.address() + 8 * i,
           held.bytes);
}

}  // namespace brim::memory::conformance
