// The axes that a reduction goes over: `sum(x, 1)`, `sum(x, {0, -1}, keepdim)`, `sum(x)` for all.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

namespace brim {

/// In any order; they count from the end when negative. None means all.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : list_{axis} {}
  Axes(std::initializer_list<int> axes) : list_(axes) {}
  Axes(std::vector<int> axes) : list_(std::move(axes)) {}

  const std::vector<int>& list() const { return list_; }

 private:
  std::vector<int> list_;
};

struct ReduceOptions {
  bool keepdim = false;  ///< keep the reduced axes, with size 1
};
inline constexpr ReduceOptions keepdim{.keepdim = true};

}  // namespace brim
