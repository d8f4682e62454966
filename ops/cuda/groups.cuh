// Sums over groups of channels on a GPU, as group norm and layer norm want them: what
// ops/cpu/group_norm.h is on the CPU. A wide group is one reduction (reduce.cuh). Groups of few
// channels are summed channel by channel, so that a warp reads a stretch, and then joined. For
// statistics over the batch use `reduce` itself.
//
// Sums S say what is done:
//   using State = ...;   all zero: of no elements
//   void add(State&, const Group&, i, c)   element i, of channel c
//   static void join(State& state, const State& later)
//   void finish(const Group&, const State&)   writes the result
#pragma once

#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/reduce.cuh"

namespace brim::cuda {

/// One group of one sample.
struct Group {
  int64_t number;  ///< counted through all samples
  int64_t start;   ///< its first element
};

/// x [N,P,C], its channels in groups.
struct Groups {
  int64_t samples, pixels, channels, groups, width;

  Groups(const View& x, int64_t groups)
      : samples(x.shape[0]),
        pixels(x.shape[1]),
        channels(x.shape[2]),
        groups(groups),
        width(channels / groups) {}

  int64_t count() const { return samples * groups; }
  bool is_empty() const { return pixels * width == 0; }
  /// Values in a group; 1 where there are none, to divide by.
  double size() const { return is_empty() ? 1 : static_cast<double>(pixels * width); }
  /// Are they summed channel by channel?
  bool by_channel() const { return width < 32 && pixels > 1; }
  ReducePlan plan() const {
    return by_channel() ? ReducePlan(samples, pixels, channels)
                        : ReducePlan(count(), pixels * width, 1);
  }
  __device__ Group group(int64_t number) const {
    const int64_t sample = number / groups;
    return {number, sample * pixels * channels + (number - sample * groups) * width};
  }
};

/// kept: groups.
template <class S>
struct WholeGroups {
  using State = typename S::State;
  Groups groups;
  S sums;
  __device__ State fold(int64_t number, int64_t, int64_t first, int64_t units, int64_t step) const {
    const Group group = groups.group(number);
    const int64_t channel = number % groups.groups * groups.width;
    State state{};
    for (int64_t u = first; u < units; u += step) {
      const int64_t pixel = u / groups.width, j = u - pixel * groups.width;
      sums.add(state, group, group.start + pixel * groups.channels + j, channel + j);
    }
    return state;
  }
  __device__ static void join(State& state, const State& later) { S::join(state, later); }
  __device__ void finish(int64_t number, int64_t, const State& state) const {
    sums.finish(groups.group(number), state);
  }
};

/// kept: samples; columns: their channels. Results are states [N,C].
template <class S>
struct ChannelsOfGroups {
  using State = typename S::State;
  Groups groups;
  S sums;
  State* states;
  __device__ State fold(int64_t n, int64_t c, int64_t first, int64_t units, int64_t step) const {
    const Group group = groups.group(n * groups.groups + c / groups.width);
    State state{};
    for (int64_t p = first; p < units; p += step)
      sums.add(state, group, (n * groups.pixels + p) * groups.channels + c, c);
    return state;
  }
  __device__ static void join(State& state, const State& later) { S::join(state, later); }
  __device__ void finish(int64_t n, int64_t c, const State& state) const {
    states[n * groups.channels + c] = state;
  }
};

/// Each group from the states of its channels.
template <class S>
struct JoinChannels {
  Groups groups;
  S sums;
  const typename S::State* states;
  __device__ void operator()(const Offsets<1>& at) const {
    typename S::State state{};
    for (int64_t j = 0; j < groups.width; ++j) S::join(state, states[at.of[0] * groups.width + j]);
    sums.finish(groups.group(at.of[0]), state);
  }
};

/// What `reduce_groups` wants of the scratch.
template <class S>
struct GroupStates {
  typename S::State *partial, *channels;

  GroupStates(ScratchCursor& cursor, const Groups& groups)
      : partial(take_partial<WholeGroups<S>>(cursor, groups.plan())),
        channels(cursor.take<typename S::State>(
            groups.by_channel() ? groups.samples * groups.channels : 0)) {}
};

template <class S>
void reduce_groups(const char* name, const KernelCall& call, const Groups& groups, const S& sums,
                   const GroupStates<S>& states) {
  if (!groups.by_channel())
    return reduce(name, call, groups.plan(), WholeGroups<S>{groups, sums}, states.partial);
  reduce(name, call, groups.plan(), ChannelsOfGroups<S>{groups, sums, states.channels},
         states.partial);
  for_each_element(call, groups.count(), JoinChannels<S>{groups, sums, states.channels}, name);
}

}  // namespace brim::cuda
