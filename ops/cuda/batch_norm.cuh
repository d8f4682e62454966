// What the files of batch norm share: x as rows of channels, and the coefficients of each channel,
// which lie in scratch and are read one by one or by the pack.
#pragma once

#include "brim/core/cuda/vector.cuh"
#include "brim/ops/cuda/channels.cuh"
#include "brim/ops/cuda/reduce.cuh"

namespace brim::cuda {

/// x [..., C] as rows of channels.
struct Pixels {
  int64_t count, channels;
  explicit Pixels(const View& x)
      : count(x.shape.back() == 0 ? 0 : x.numel() / x.shape.back()), channels(x.shape.back()) {}
  ReducePlan plan() const { return {1, count, channels}; }
};

/// y = (x - mean) * scale + shift; dx = g * scale + (x - mean) * slope + level. The mean is rounded
/// to T, and what is lost there is in the shift.
template <class T>
struct Coefficients {
  T *mean, *scale, *shift, *slope, *level;

  Coefficients(ScratchCursor& cursor, int64_t channels)
      : mean(cursor.take<T>(channels)),
        scale(cursor.take<T>(channels)),
        shift(cursor.take<T>(channels)),
        slope(cursor.take<T>(channels)),
        level(cursor.take<T>(channels)) {}
};

/// Coefficients of an element's channel, and then of the next one's. One at a time, wherever the
/// element lies.
template <class T>
struct OneByOne {
  const Coefficients<T>& by;
  int64_t c, channels;

  __device__ OneByOne(const Coefficients<T>& by, int64_t i, int64_t channels)
      : by(by), c(i % channels), channels(channels) {}
  __device__ void next() {
    if (++c == channels) c = 0;
  }
  __device__ T mean() const { return by.mean[c]; }
  __device__ T scale() const { return by.scale[c]; }
  __device__ T shift() const { return by.shift[c]; }
  __device__ T slope() const { return by.slope[c]; }
  __device__ T level() const { return by.level[c]; }
};

/// Those of a whole pack of S, read at once: for the first of its elements, where packs fill the
/// channels. What a kernel may use is read, also where nobody wrote it and it is not used then.
template <class S>
struct ByPack {
  using T = Compute<S>;
  using Numbers = Stretch<T, Pack<S>::kCount>;
  Numbers means, scales, shifts, slopes, levels;
  int at = 0;

  __device__ ByPack(const Coefficients<T>& by, int64_t i, int64_t channels) {
    const int64_t c = i % channels;
    means = Numbers::load(by.mean + c);
    scales = Numbers::load(by.scale + c);
    shifts = Numbers::load(by.shift + c);
    slopes = Numbers::load(by.slope + c);
    levels = Numbers::load(by.level + c);
  }
  __device__ void next() { ++at; }
  __device__ T mean() const { return means.of[at]; }
  __device__ T scale() const { return scales.of[at]; }
  __device__ T shift() const { return shifts.of[at]; }
  __device__ T slope() const { return slopes.of[at]; }
  __device__ T level() const { return levels.of[at]; }
};

/// Calls `body<ByPack<S>>()` where that may be, else `body<OneByOne<...>>()`, with the same
/// results.
template <class S, class Body>
void choose_coefficients(int64_t channels, std::initializer_list<const S*> buffers,
                         const Body& body) {
  if (packs_fill<S>(channels, buffers))
    body.template operator()<ByPack<S>>();
  else
    body.template operator()<OneByOne<Compute<S>>>();
}

/// Before the activation. Backward finds the same bits with the same formula.
template <class T, class Channel>
__device__ T normalized(T x, const Channel& channel) {
  return fma(x - channel.mean(), channel.scale(), channel.shift());
}

}  // namespace brim::cuda
