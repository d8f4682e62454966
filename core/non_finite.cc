#include "brim/core/non_finite.h"

#include <atomic>
#include <cmath>

#include "brim/core/strided_loop.h"
#include "brim/core/transfer.h"

namespace brim {

bool has_non_finite(const Tensor& there) {
  if (!there.defined() || !is_floating(there.dtype()) || there.device().is_meta()) return false;
  const Tensor tensor = staged_on_host(there);
  return visit_dtype(tensor.dtype(), [&]<class T>() {
    const T* values = tensor.data<T>();
    std::atomic<bool> found = false;
    StridedLoop<1>(tensor.shape(), {tensor.strides()})
        .run([&](const Steps<1>& at, int64_t count, const Steps<1>& step) {
          if (found.load(std::memory_order_relaxed)) return;
          bool bad = false;  // no early end, which costs more than it spares
          for (int64_t i = 0; i < count; ++i)
            bad |= !std::isfinite(convert<double>(values[at[0] + i * step[0]]));
          if (bad) found.store(true, std::memory_order_relaxed);
        });
    return found.load();
  });
}

}  // namespace brim
