#include "brim/ops/onednn.h"

#include <dnnl_debug.h>

#include <string_view>

#include "brim/base/parallel.h"
#include "brim/memory/account.h"
#include "brim/ops/onednn_primitive.h"

namespace brim::onednn {
namespace {

/// The library's parallel loops take the threads as they are: those that no loop of brim's has been
/// on may not flush denormals yet.
void prepare_threads() {
  thread_local int prepared = 1;
  if (prepared >= num_threads()) return;
  prepared = num_threads();
  parallel_for(prepared, 1, [](int64_t, int64_t) {});
}

/// Failures of the library become brim's.
template <class Call>
void guarded(const Call& call) {
  NoParallelScope::check_absent();
  prepare_threads();
  try {
    call();
  } catch (const dnnl::error& error) {
    raise_failure(error.status, error.what());
  } catch (const std::bad_alloc& error) {
    raise_failure(dnnl_out_of_memory, error.what());
  }
}

/// An instruction set has the bits of those that it contains.
bool has_instructions(dnnl::cpu_isa set) {
  static const auto there = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (there & static_cast<unsigned>(set)) == static_cast<unsigned>(set);
}

}  // namespace

bool has_bfloat16() { return has_instructions(dnnl::cpu_isa::avx512_core_bf16); }
bool has_tiles() { return has_instructions(dnnl::cpu_isa::avx512_core_amx); }

void raise_failure(int status, const char* what) {
  if (status == dnnl_out_of_memory) brim::memory::raise_library_shortage(Device::cpu());
  raise<InternalError>("onednn", "{} (status {})", what,
                       dnnl_status2str(static_cast<dnnl_status_t>(status)));
}

int64_t scratch_bytes(const Primitive& primitive) { return primitive.scratch_bytes(); }

void run(const Primitive& primitive, const void* first, const void* second, const void* bias,
         void* result, void* scratch) {
  guarded([&] { primitive.run(first, second, bias, result, scratch); });
}

int64_t packed_bytes(const Primitive& primitive) { return primitive.packed_bytes(); }

bool pack_alike(const Primitive& a, const Primitive& b) { return a.packs_like(b); }

void pack(const Primitive& primitive, const void* weight, void* packed, void* scratch) {
  guarded([&] { primitive.pack(weight, packed, scratch); });
}

int64_t scratch_bytes_packed(const Primitive& primitive) {
  return primitive.scratch_bytes(/*packed=*/true);
}

void run_packed(const Primitive& primitive, const void* x, const void* packed, const void* bias,
                void* y, void* scratch) {
  guarded([&] { primitive.run(x, packed, bias, y, scratch, /*packed=*/true); });
}

const char* implementation(const Primitive& primitive) { return primitive.name(); }

bool is_direct_avx2(const Primitive& convolution) {
  return std::string_view(convolution.name()) == "jit:avx2";
}

bool is_slow_on_nhwc(const Primitive& convolution, const ConvShape& shape) {
  constexpr int64_t kMany = 64;
  return is_direct_avx2(convolution) && shape.groups == 1 && shape.c >= kMany && shape.k >= kMany;
}

}  // namespace brim::onednn
