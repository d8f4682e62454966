#include "brim/ops/onednn.h"

#include <dnnl_debug.h>

#include "brim/base/parallel.h"
#include "brim/memory/account.h"
#include "brim/ops/onednn_primitive.h"

namespace brim::onednn {

bool has_bfloat16() {
  // An instruction set has the bits of those that it contains.
  constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  static const auto there = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (there & kWanted) == kWanted;
}

void raise_failure(int status, const char* what) {
  if (status == dnnl_out_of_memory) brim::memory::raise_library_shortage(Device::cpu());
  raise<InternalError>("onednn", "{} (status {})", what,
                       dnnl_status2str(static_cast<dnnl_status_t>(status)));
}

int64_t scratch_bytes(const Primitive& primitive) { return primitive.scratch_bytes(); }

void run(const Primitive& primitive, const void* first, const void* second, const void* bias,
         void* result, void* scratch) {
  NoParallelScope::check_absent();
  try {
    primitive.run(first, second, bias, result, scratch);
  } catch (const dnnl::error& error) {
    raise_failure(error.status, error.what());
  } catch (const std::bad_alloc& error) {
    raise_failure(dnnl_out_of_memory, error.what());
  }
}

const char* implementation(const Primitive& primitive) { return primitive.name(); }

}  // namespace brim::onednn
