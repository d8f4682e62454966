// Writes down what an account does, and fills every fresh block with a pattern, so that code which
// reads memory before it wrote it gives different results with different patterns. A `Sandbox`
// (execution.h) sets one up. Changes of category are not noted; for totals and peaks ask
// `Account::stats()`.
#pragma once

#include <cstring>
#include <vector>

#include "brim/memory/account.h"

namespace brim::testing {

/// A request (positive bytes, its category) or a release (negative bytes).
struct LedgerEntry {
  int64_t bytes = 0;
  memory::Category category = memory::Category::other;
  friend bool operator==(const LedgerEntry&, const LedgerEntry&) = default;
};

class Ledger final : public memory::Recorder {
 public:
  // Patterns: NaN in every floating dtype, and a number around 1 (float32) or below.
  static constexpr int kNan = 0xFF, kNumber = 0x3F;

  /// `touch` is false for accounts whose addresses have no bytes.
  Ledger(bool touch, int pattern) : touch_(touch), pattern_(pattern) {}

  void allocated(const memory::Block& block) override {
    entries_.push_back({block.bytes, block.category});
    auto* begin = static_cast<char*>(block.address());
    fresh_.push_back({begin, begin + block.bytes});
    if (touch_) std::memset(begin, pattern_, static_cast<size_t>(block.bytes));
  }
  void released(const memory::Block& block) noexcept override {
    entries_.push_back({-block.bytes, block.category});
  }

  const std::vector<LedgerEntry>& entries() const { return entries_; }
  void set_pattern(int pattern) { pattern_ = pattern; }
  /// From here on, blocks are fresh.
  void mark() { fresh_.clear(); }
  /// Was the block around this address allocated after the mark?
  bool is_fresh(const void* address) const {
    for (const auto& [begin, end] : fresh_)
      if (address >= begin && address < end) return true;
    return false;
  }

 private:
  bool touch_;
  int pattern_;
  std::vector<LedgerEntry> entries_;
  std::vector<std::pair<const char*, const char*>> fresh_;
};

}  // namespace brim::testing
