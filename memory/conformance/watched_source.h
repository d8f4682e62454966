// A source that knows which pieces it gave, and takes back only those. Where its pieces lie is its
// caller's choice, so that a planner which looks at addresses is found out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "brim/memory/source.h"

namespace brim::memory::conformance {

enum class Pieces : uint8_t {
  in_memory,   ///< with bytes that can be written
  ascending,   ///< without
  descending,  ///< without
};

class WatchedSource final : public Source {
 public:
  /// `returning(address, bytes)` says what speaks against a piece going back; "" for nothing.
  using Returning = std::function<std::string(uintptr_t address, int64_t bytes)>;

  WatchedSource(int64_t capacity, const Pages& pages, Pieces pieces, Returning returning);
  ~WatchedSource() override;

  /// Are these bytes within one piece that is out?
  bool holds(uintptr_t address, int64_t bytes) const;
  bool has_bytes() const override { return pieces_ == Pieces::in_memory; }
  /// The first thing that was wrong with what came back; "" while all is well.
  const std::string& breach() const { return breach_; }

 private:
  void* take(int64_t bytes) override;
  void give_back(void* address, int64_t bytes) noexcept override;
  void give_back_pages(void* address, int64_t bytes) noexcept override;
  std::string objection(uintptr_t address, int64_t bytes) const;
  std::string objection_to_pages(uintptr_t address, int64_t bytes) const;
  bool accept(std::string objection) noexcept;

  const Pieces pieces_;
  const Returning returning_;
  std::map<uintptr_t, int64_t> out_;
  std::vector<void*> memory_;  // behind pages, to the end
  uintptr_t up_ = uintptr_t{1} << 40, down_ = uintptr_t{1} << 46;
  std::string breach_;
};

}  // namespace brim::memory::conformance
