// Channels of NHWC images that a thread has: a pack of neighbours, which it reads and writes at
// once, or one, where packs do not fill the channels. The results are the same.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/core/cuda/vector.cuh"

namespace brim::cuda {

/// One channel where there might be a `Pack` of them.
template <class S>
struct Single {
  using Element = S;
  static constexpr int kCount = 1;
  S of[kCount];

  /// Null gives zero.
  __device__ static Single load(const S* from) {
    return from == nullptr ? Single{} : Single{{*from}};
  }
  __device__ static Single load_whole(const S* from) { return load(from); }
  __device__ void store(S* to) const { *to = of[0]; }
};

/// Whether packs fill the channels of these images.
template <class S>
bool packs_fill(int64_t channels, std::initializer_list<const S*> images) {
  return channels % Pack<S>::kCount == 0 && std::ranges::all_of(images, is_aligned);
}

/// Calls `body<Pack<S>>()` where packs fill the channels of these images, else `body<Single<S>>()`,
/// which has the same results.
template <class S, class Body>
void choose_channels(int64_t channels, std::initializer_list<const S*> images, const Body& body) {
  if (packs_fill<S>(channels, images))
    body.template operator()<Pack<S>>();
  else
    body.template operator()<Single<S>>();
}

}  // namespace brim::cuda
