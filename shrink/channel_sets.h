// Which channels stand or fall together: sets of them that grow by being united. A union-find with
// path halving; Tarjan and van Leeuwen, "Worst-case analysis of set union algorithms", 1984.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace brim::shrink {

using ChannelIds = std::vector<int64_t>;

class ChannelSets {
 public:
  /// The set of all that cannot be removed: channels of the model's input and output, and those of
  /// which some op makes nobody knows what.
  static constexpr int64_t kFixed = 0;

  /// New channels, each in a set of its own.
  ChannelIds add(int64_t count);
  /// The set that a channel is in, the same number for all of its channels.
  int64_t find(int64_t channel);
  bool is_fixed(int64_t channel) { return find(channel) == kFixed; }
  void unite(int64_t a, int64_t b);
  /// Pair by pair: as many of the one as of the other.
  void unite(std::span<const int64_t> a, std::span<const int64_t> b);
  void fix(std::span<const int64_t> channels);

 private:
  std::vector<int64_t> parents_{kFixed};
};

}  // namespace brim::shrink
