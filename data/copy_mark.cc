#include "brim/data/copy_mark.h"

#include "brim/base/error.h"

namespace brim::data::detail {

void CopyMark::prepare(const cuda::Stream& stream) {
  if (stream_ == stream.handle()) return;
  wait();
  event_.emplace(stream.device());
  stream_ = stream.handle();
}

void CopyMark::set(const cuda::Stream& stream) {
  event_->record(stream);
  is_set_ = true;
}

void CopyMark::wait() noexcept {
  if (!is_set_) return;
  is_set_ = false;
  try {
    event_->synchronize();
  } catch (const DeviceError&) {  // the next call that waits says so
  }
}

}  // namespace brim::data::detail
