// Where in a GPU's work the copies of a slot's bytes end, so that the slot is not filled again
// while the GPU still reads it. Internal to `data/loader.h`.
#pragma once

#include <optional>

#include "brim/base/cuda/event.h"

namespace brim::data::detail {

class CopyMark {
 public:
  /// Before copies are enqueued on `stream`: those on another one are waited for. Throws
  /// `DeviceError`, and then none may be.
  void prepare(const cuda::Stream& stream);
  /// The copies end here, on the stream of `prepare`. Throws `DeviceError`.
  void set(const cuda::Stream& stream);
  /// Until they are done; at once where none is under way. A GPU that fails reads nothing more.
  void wait() noexcept;

 private:
  std::optional<cuda::Event> event_;
  const CUstream_st* stream_ = nullptr;
  bool is_set_ = false;
};

}  // namespace brim::data::detail
