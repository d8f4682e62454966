#include "brim/ops/cuda/convolution.h"

#include <array>
#include <map>
#include <mutex>
#include <set>

#include "brim/base/cuda/error.h"
#include "brim/ops/cuda/convolution_graph.cuh"

namespace brim::cuda {

class Convolution {
 public:
  Convolution(const ConvolutionCall& call, Device device)
      : pass_(call.pass),
        bias_(call.bias),
        handle_(cudnn_handle(device)),
        graph_(call),
        engine_(find_engine(call, graph_, {})) {}

  int64_t workspace_bytes() const { return engine_.workspace; }

  void run(const ConvolutionBuffers& buffers) const {
    std::array<int64_t, 4> numbers = argument_numbers();
    std::array<const void*, 4> pointers{buffers.first, buffers.second, buffers.result,
                                        buffers.bias};
    const int64_t count = bias_ ? 4 : 3;
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &buffers.workspace);
    pack.finalize();
    check_cudnn(cudnn().execute(handle_, engine_.plan.get(), pack.get()), "cudnnBackendExecute");
  }

 private:
  /// Of the first buffer, the second, the result and the bias.
  std::array<int64_t, 4> argument_numbers() const {
    switch (pass_) {
      case ConvPass::forward:
        return {kX, kWeight, kY, kBias};
      case ConvPass::backward_data:
        return {kY, kWeight, kX, kBias};
      case ConvPass::backward_weight:
        return {kX, kY, kWeight, kBias};
    }
    raise<InternalError>("conv2d", "unknown pass {}", static_cast<int>(pass_));
  }

  ConvPass pass_;
  bool bias_;
  cudnnHandle_t handle_;
  ConvolutionGraph graph_;
  Engine engine_;
};

namespace {

using Key = std::array<int64_t, 21>;

Key key_of(const ConvolutionCall& call, Device device) {
  const ConvShape& s = call.shape;
  return {s.n,
          s.h,
          s.w,
          s.c,
          s.k,
          s.r,
          s.s,
          s.p,
          s.q,
          s.stride.h,
          s.stride.w,
          s.padding.h,
          s.padding.w,
          s.dilation.h,
          s.dilation.w,
          s.groups,
          static_cast<int64_t>(call.pass),
          static_cast<int64_t>(call.dtype),
          call.alignment,
          call.bias,
          device.index};
}

}  // namespace

const Convolution& find_convolution(const ConvolutionCall& call, Device device) {
  static std::mutex mutex;
  static auto* cache = new std::map<Key, Convolution>;
  Key key = key_of(call, device);
  std::lock_guard lock(mutex);
  auto found = cache->find(key);
  if (found == cache->end()) found = cache->emplace(key, Convolution(call, device)).first;
  return found->second;
}

// Asked at every launch: cuDNN goes through its engines once, also where it has none.
bool has_convolution(const ConvolutionCall& call, Device device) {
  static std::mutex mutex;
  static auto* without = new std::set<Key>;
  const Key key = key_of(call, device);
  if (std::lock_guard lock(mutex); without->contains(key)) return false;
  try {
    find_convolution(call, device);
    return true;
  } catch (const AllocationError&) {
    throw;  // what memory is left must not choose
  } catch (const DeviceError&) {
    std::lock_guard lock(mutex);
    without->insert(key);
    return false;
  }
}

int64_t workspace_bytes(const Convolution& convolution) { return convolution.workspace_bytes(); }

void run(const Convolution& convolution, const ConvolutionBuffers& buffers) {
  convolution.run(buffers);
}

EngineChoice choose_engine(const ConvolutionCall& call, const std::string& properties) {
  ConvolutionGraph graph(call);
  Engine engine = find_engine(call, graph, device_properties(properties));
  return {.engine = engine.number, .workspace = engine.workspace};
}

}  // namespace brim::cuda
