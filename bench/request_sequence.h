// What a training step asks of memory, in an order that a benchmark can replay: requests and
// releases by slot. Recorded from the account that a step runs on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "brim/base/error.h"
#include "brim/memory/account.h"

namespace brim::bench {

struct Event {
  size_t slot = 0;    ///< equal for a request and its release
  int64_t bytes = 0;  ///< 0 for a release
};

struct Sequence {
  std::vector<Event> before;  ///< requests for what is held through every step
  std::vector<Event> step;    ///< what it asks for, it also releases
  size_t slots = 0;
};

/// Keeps what happens after `keep`, which must leave as many buffers held as it found.
class SequenceRecorder final : public memory::Recorder {
 public:
  void allocated(const memory::Block& block) override {
    size_t slot = free_.empty() ? sequence_.slots++ : free_.back();
    if (!free_.empty()) free_.pop_back();
    held_.emplace(block.live, Event{slot, block.bytes});
    if (keeping_) sequence_.step.push_back({slot, block.bytes});
  }
  void released(const memory::Block& block) noexcept override {
    auto found = held_.find(block.live);
    if (keeping_) sequence_.step.push_back({found->second.slot, 0});
    free_.push_back(found->second.slot);
    held_.erase(found);
  }
  void keep() {
    keeping_ = true;
    for (const auto& [live, event] : held_) sequence_.before.push_back(event);
    std::ranges::sort(sequence_.before, {}, &Event::slot);
  }
  Sequence finish() {
    keeping_ = false;
    check(held_.size() == sequence_.before.size(), "a step releases what it asked for");
    return sequence_;
  }

 private:
  bool keeping_ = false;
  std::unordered_map<const memory::LiveBuffer*, Event> held_;
  std::vector<size_t> free_;
  Sequence sequence_;
};

}  // namespace brim::bench
