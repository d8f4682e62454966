// A planner under test, and all that is known of it: every operation on it goes through here and
// is followed by every check. `check_planner` says what to do with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brim/memory/conformance.h"
#include "brim/memory/conformance/stream_clocks.h"
#include "brim/memory/conformance/watched_source.h"

namespace brim::memory::conformance {

class Probe {
 public:
  Probe(const MakePlanner& make_planner, const ConformanceOptions& options, const Pages& pages,
        Pieces pieces);

  /// `bytes` are rounded up. False when the planner refuses.
  bool place(int64_t bytes, int stream);
  size_t held() const { return held_.size(); }
  /// The `i`th of what is held, in an order that repeats itself.
  void release(size_t i);
  void release_all();
  void empty_cache();
  void begin_step();
  void end_step();
  void begin_section(const Section& section);
  void end_section();
  /// Of the source; below what is reserved, nothing more may be taken.
  void set_capacity(int64_t bytes);
  /// Destroys the planner; nothing may be held.
  void end();

  int64_t reserved() const { return source_.used(); }
  /// Reserved bytes after every operation so far.
  const std::vector<int64_t>& history() const { return history_; }
  /// Throws that the planner did what `format` says.
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    raise<ConformanceError>("conformance", "the {} planner {}", name_,
                            fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  struct Held {
    Placement placement;
    int64_t bytes = 0;
    int stream = 0;
    uint64_t mark = 0;  // what its bytes hold
    uintptr_t address() const { return reinterpret_cast<uintptr_t>(placement.address); }
    uintptr_t end() const { return address() + static_cast<uintptr_t>(bytes); }
  };
  // Bytes that were released, and when the last work on them was enqueued.
  struct Released {
    uintptr_t begin, end;
    int stream;
    int64_t time;
  };

  void check_placement(const Held& fresh) const;
  void check_streams(const Held& fresh);
  void check_numbers(const char* after);
  void take_out_of_released(uintptr_t begin, uintptr_t end);
  std::string objection(uintptr_t address, int64_t bytes);
  void write(const Held& held) const;
  void check_bytes(const Held& held) const;

  int64_t capacity_;  // that the source should have
  std::shared_ptr<StreamClocks> clocks_;
  WatchedSource source_;
  std::string name_;
  std::vector<Held> held_;
  std::map<uintptr_t, uintptr_t> ranges_;  // of what is held: begin, end
  std::vector<Released> released_;
  int64_t live_ = 0;
  uint64_t marks_ = 0;
  std::vector<int64_t> history_;
  std::unique_ptr<Planner> planner_;  // the last: as it ends, it gives back to the source
};

}  // namespace brim::memory::conformance
