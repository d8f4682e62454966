// What a program asks of memory, in an order that a benchmark can replay: requests and releases by
// slot, and what a planner with a plan follows them by: the sites that ask, steps and sections.
// Recorded from the account that a program runs on.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "brim/base/error.h"
#include "brim/memory/account.h"

namespace brim::bench {

struct Event {
  enum class Kind : uint8_t {
    request,
    release,
    site,  ///< another run of an op, or none
    begin_step,
    end_step,
    begin_section,
    end_section
  };
  Kind kind = Kind::request;
  size_t number = 0;  ///< of the slot, equal for a request and its release; site; or section
  int64_t bytes = 0;  ///< of a request
};

struct Sequence {
  std::vector<Event> before;  ///< until the step begins
  std::vector<Event> step;    ///< what it asks for, it also releases
  size_t slots = 0;
  std::vector<memory::Site> sites;
  std::vector<memory::Section> sections;
  int64_t requests = 0;  ///< of the step
};

/// What happens from `keep` on is the step.
class SequenceRecorder final : public memory::Recorder {
 public:
  void allocated(const memory::Block& block) override {
    note_site(block.live->site);
    size_t slot = free_.empty() ? sequence_.slots++ : free_.back();
    if (!free_.empty()) free_.pop_back();
    held_.emplace(block.live, slot);
    add({Event::Kind::request, slot, block.bytes});
    ++sequence_.requests;
  }
  void released(const memory::Block& block) noexcept override {
    auto found = held_.find(block.live);
    add({Event::Kind::release, found->second});
    free_.push_back(found->second);
    held_.erase(found);
  }
  void began_step() override { add({Event::Kind::begin_step}); }
  void ended_step() noexcept override { add({Event::Kind::end_step}); }
  void began_section(const memory::Section& section) override {
    add({Event::Kind::begin_section, sequence_.sections.size()});
    sequence_.sections.push_back(section);
  }
  void ended_section() noexcept override { add({Event::Kind::end_section}); }

  void keep() {
    keeping_ = true;
    held_before_ = held_.size();
    sequence_.requests = 0;
    run_ = kUnknown;  // a step that is replayed comes after itself
  }
  Sequence finish() {
    check(held_.size() == held_before_, "a step releases what it asked for");
    return sequence_;
  }

 private:
  static constexpr uint64_t kUnknown = ~uint64_t{0};

  void add(const Event& event) { (keeping_ ? sequence_.step : sequence_.before).push_back(event); }
  void note_site(const memory::Site& site) {
    if (site.run == run_) return;
    run_ = site.run;
    add({Event::Kind::site, sequence_.sites.size()});
    sequence_.sites.push_back(site);
  }

  bool keeping_ = false;
  size_t held_before_ = 0;
  uint64_t run_ = kUnknown;
  std::unordered_map<const memory::LiveBuffer*, size_t> held_;  // slots
  std::vector<size_t> free_;
  Sequence sequence_;
};

}  // namespace brim::bench
