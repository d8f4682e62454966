#include "brim/shrink/channel_sets.h"

#include <algorithm>
#include <numeric>

#include "brim/base/error.h"

namespace brim::shrink {

ChannelIds ChannelSets::add(int64_t count) {
  ChannelIds ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<int64_t>(parents_.size()));
  parents_.insert(parents_.end(), ids.begin(), ids.end());
  return ids;
}

int64_t ChannelSets::find(int64_t channel) {
  auto parent = [&](int64_t of) -> int64_t& { return parents_[static_cast<size_t>(of)]; };
  while (parent(channel) != channel) channel = parent(channel) = parent(parent(channel));
  return channel;
}

// The smaller number leads: the fixed set keeps its own, and sets are in the order of the trace.
void ChannelSets::unite(int64_t a, int64_t b) {
  auto [first, second] = std::minmax({find(a), find(b)});
  parents_[static_cast<size_t>(second)] = first;
}

void ChannelSets::unite(std::span<const int64_t> a, std::span<const int64_t> b) {
  check(a.size() == b.size(), "channels are united pair by pair");
  for (size_t i = 0; i < a.size(); ++i) unite(a[i], b[i]);
}

void ChannelSets::fix(std::span<const int64_t> channels) {
  for (int64_t channel : channels) unite(channel, kFixed);
}

}  // namespace brim::shrink
