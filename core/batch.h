// The scope in which kernels gather (base/gathered.h): an optimizer's update of all parameters is
// one kernel on a GPU, and one parallel loop on a CPU, also where its launches are recorded.
#pragma once

#include "brim/core/call_list.h"

namespace brim {

/// Kernels of this thread that gather do so until the scope ends, which starts them; in the order
/// in which they were launched, whatever their kinds. What they read and write must stay until
/// then. In scopes that nest, the end of an inner one is one too: who opens a scope finds the
/// results behind it. Outside of all, each launch starts by itself.
class BatchScope {
 public:
  BatchScope();
  ~BatchScope();
  BatchScope(const BatchScope&) = delete;
  BatchScope& operator=(const BatchScope&) = delete;

 private:
  CallRecording* recording_;
};

}  // namespace brim
