#include "brim/ops/cuda/convolution.h"

#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/ops/cuda/engine.cuh"
#include "brim/ops/cuda/engine_kind.h"
#include "brim/ops/cuda/failed_for.h"
#include "brim/ops/cuda/without.h"
#include "brim/ops/cuda/workspace.h"

namespace brim::cuda {
namespace {

/// With a timer where one is wanted and has a source of bytes.
EngineSelection selection_for(const ConvolutionCall& call, Device device, AskedFor purpose) {
  EngineSelection selection{.table = engine_table(device)};
  EngineTimingScope* scope = EngineTimingScope::current();
  if (call.benchmark && scope != nullptr && purpose == AskedFor::plan)
    selection.make_timer = [call, device, scope](const std::vector<Engine>& engines) {
      return engine_timer(call, device, engines, scope->source());
    };
  return selection;
}

}  // namespace

class Convolution {
 public:
  Convolution(const ConvolutionCall& call, Device device, AskedFor purpose)
      : call_(call),
        handle_(cudnn_handle(device)),
        graph_(call),
        engine_(select_engine(call, graph_, device_properties(device),
                              selection_for(call, device, purpose))) {}

  int64_t workspace_bytes() const { return engine_.choice.workspace; }
  void run(const ConvolutionBuffers& buffers) const {
    run_for([this] { return name_of(call_); }, [&] { execute(call_, handle_, engine_, buffers); });
  }

 private:
  ConvolutionCall call_;
  cudnnHandle_t handle_;
  ConvolutionGraph graph_;
  Engine engine_;
};

namespace {

using Key = std::array<int64_t, 23>;

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
          call.allow_tf32,
          call.benchmark,
          device.index};
}

const char* text_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return "forward";
    case ConvPass::backward_data:
      return "backward_data";
    case ConvPass::backward_weight:
      return "backward_weight";
  }
  raise<InternalError>("conv2d", "unknown pass {}", static_cast<int>(pass));
}

}  // namespace

std::string name_of(const ConvolutionCall& call) {
  const ConvShape& s = call.shape;
  return fmt::format(
      "{} {} x {}x{}x{}x{} weight {}x{}x{}x{} y {}x{} stride {}x{} padding {}x{} dilation {}x{} "
      "groups {} alignment {}{}{}{}",
      text_of(call.pass), to_string(call.dtype), s.n, s.h, s.w, s.c, s.k, s.r, s.s,
      s.group_channels(), s.p, s.q, s.stride.h, s.stride.w, s.padding.h, s.padding.w, s.dilation.h,
      s.dilation.w, s.groups, call.alignment, call.bias ? " bias" : "",
      call.allow_tf32 ? " tf32" : "", call.benchmark ? " benchmark" : "");
}

namespace {

bool has_cudnn() {
  static const bool here = [] {
    try {
      cudnn();
      return true;
    } catch (const MissingLibraryError&) {
      return false;
    }
  }();
  return here;
}

std::string kind_of(std::string_view gpu, int major, int minor) {
  return fmt::format("{}, {}.{}, cuDNN {}", gpu, major, minor, cudnn().version());
}

}  // namespace

std::string engine_kind(Device device) {
  static std::mutex mutex;
  static auto* kinds = new std::map<int, std::string>;
  std::lock_guard lock(mutex);
  const StandIn& planned = stand_in();
  if (!has_cudnn()) return "";
  if (!planned.is_here)
    return planned.description == nullptr
               ? ""
               : kind_of(planned.description->name, planned.description->major,
                         planned.description->minor);
  if (auto found = kinds->find(device.index); found != kinds->end()) return found->second;
  if (!why_no_device().empty()) return "";
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device.index), "cudaGetDeviceProperties");
  return (*kinds)[device.index] = kind_of(properties.name, properties.major, properties.minor);
}

std::string properties_json(Device device) {
  const CudnnDescriptor properties = device_properties(device);
  std::string text(1 << 16, '\0');
  int64_t count = 0;
  check_cudnn(cudnn().get_attribute(properties.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                    CUDNN_TYPE_CHAR, std::ssize(text), &count, text.data()),
              "cudnnBackendGetAttribute");
  text.resize(text.find('\0'));
  return text;
}

const Convolution& find_convolution(const ConvolutionCall& call, Device device, AskedFor purpose) {
  static std::mutex mutex;
  static auto* cache = new std::map<Key, Convolution>;
  Key key = key_of(call, device);
  std::lock_guard lock(mutex);
  auto found = cache->find(key);
  if (found != cache->end()) return found->second;
  return choose_for([&] { return name_of(call); },
                    [&]() -> const Convolution& {
                      return cache->emplace(key, Convolution(call, device, purpose)).first->second;
                    });
}

bool has_convolution(const ConvolutionCall& call, Device device, AskedFor purpose) {
  static auto* without = new Without<Key>;
  return without->finds(key_of(call, device), [&] { find_convolution(call, device, purpose); });
}

int64_t planned_workspace(const ConvolutionCall& call) {
  using Asked = std::pair<const GpuDescription*, Key>;
  static std::mutex mutex;
  static auto* known = new std::map<Asked, int64_t>;
  const GpuDescription* gpu = stand_in().description;
  if (gpu == nullptr || call.benchmark || !has_cudnn()) return kWorkspaceCap;
  std::lock_guard lock(mutex);
  const Asked asked{gpu, key_of(call, stand_in().device)};
  if (const auto found = known->find(asked); found != known->end()) return found->second;
  return known->emplace(asked, choose_engine(call, to_json(*gpu)).workspace).first->second;
}

bool has_planned_engine(const ConvolutionCall& call) {
  using Asked = std::pair<const GpuDescription*, Key>;
  static auto* without = new Without<Asked>;
  return without->finds({stand_in().description, key_of(call, stand_in().device)},
                        [&] { planned_workspace(call); });
}

int64_t workspace_bytes(const Convolution& convolution) { return convolution.workspace_bytes(); }

void run(const Convolution& convolution, const ConvolutionBuffers& buffers) {
  convolution.run(buffers);
}

EngineChoice choose_engine(const ConvolutionCall& call, const std::string& properties,
                           EngineTable* table, const EngineTimer& timer) {
  EngineTable unused;
  EngineSelection selection{.table = table != nullptr ? *table : unused};
  if (timer) selection.make_timer = [&](const std::vector<Engine>&) { return timer; };
  return choose_for(
      [&] { return name_of(call); },
      [&] {
        const ConvolutionGraph graph(call);
        return select_engine(call, graph, device_properties(properties), selection).choice;
      });
}

}  // namespace brim::cuda
