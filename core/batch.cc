#include "brim/core/batch.h"

#include "brim/base/gathered.h"

namespace brim {

BatchScope::BatchScope() : recording_(CallRecording::current()) {
  if (recording_ != nullptr) recording_->add(begin_gathering);
  begin_gathering();
}

BatchScope::~BatchScope() {
  if (recording_ != nullptr) recording_->add(end_gathering);
  end_gathering();
}

}  // namespace brim
