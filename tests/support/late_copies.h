// A copy engine as slow as an engine may be: a copy is made when it is finished, and not before.
// Until then what it will write to is overwritten, so that who reads early reads NaN. It notes what
// breaks the rules of copy_engine.h. On the processor.
#pragma once

#include <algorithm>
#include <cstring>
#include <list>
#include <vector>

#include "brim/autograd/copy_engine.h"

namespace brim::testing {

/// What an engine saw; outlives it.
struct CopyNotes {
  int under_way[2] = {}, most_under_way[2] = {};  ///< by direction
  int changed =
      0;  ///< copies whose source was written to, or given to others, before they were done
  int unknown = 0;  ///< copies that were finished twice, or never begun
};

class LateCopies final : public autograd::CopyEngine {
 public:
  explicit LateCopies(CopyNotes& notes) : notes_(notes) {}

  uint64_t begin(void* to, const void* from, int64_t bytes,
                 autograd::CopyDirection direction) override {
    const auto* first = static_cast<const char*>(from);
    copies_.push_back({++last_, to, from, direction, {first, first + bytes}});
    std::memset(to, 0xff, static_cast<size_t>(bytes));
    const auto way = static_cast<size_t>(direction);
    notes_.most_under_way[way] = std::max(notes_.most_under_way[way], ++notes_.under_way[way]);
    return last_;
  }

  void finish(uint64_t number) noexcept override {
    auto copy = std::ranges::find(copies_, number, &Copy::number);
    if (copy == copies_.end()) {
      ++notes_.unknown;
      return;
    }
    if (std::memcmp(copy->from, copy->bytes.data(), copy->bytes.size()) != 0) ++notes_.changed;
    std::memcpy(copy->to, copy->from, copy->bytes.size());
    --notes_.under_way[static_cast<size_t>(copy->direction)];
    copies_.erase(copy);
  }

 private:
  struct Copy {
    uint64_t number;
    void* to;
    const void* from;
    autograd::CopyDirection direction;
    std::vector<char> bytes;  // as they were
  };
  CopyNotes& notes_;
  std::list<Copy> copies_;
  uint64_t last_ = 0;
};

}  // namespace brim::testing
