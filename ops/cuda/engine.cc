#include "brim/ops/cuda/engine.cuh"

#include <algorithm>
#include <array>

#include "brim/base/cuda/error.h"
#include "brim/ops/cuda/workspace.h"

namespace brim::cuda {
namespace {

// More engines than cuDNN has for any convolution: a longer list is cut.
constexpr int64_t kMaxConfigs = 64;
// Of those that are timed. Heuristics put the good ones first.
constexpr size_t kMostTimed = 8;

/// The descriptors that an attribute holds, at most `most`.
std::vector<CudnnDescriptor> descriptors_of(const CudnnDescriptor& owner,
                                            cudnnBackendAttributeName_t name,
                                            cudnnBackendDescriptorType_t type, int64_t most) {
  std::vector<CudnnDescriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < most; ++i)
    raw.push_back(descriptors.emplace_back(CudnnDescriptor(type)).get());
  int64_t count = 0;
  check_cudnn(cudnn().get_attribute(owner.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                                    raw.data()),
              "cudnnBackendGetAttribute");
  descriptors.resize(static_cast<size_t>(std::min(count, most)));
  return descriptors;
}

std::vector<CudnnDescriptor> configs_of(const ConvolutionGraph& graph, cudnnBackendHeurMode_t mode,
                                        const CudnnDescriptor& device) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  if (!heuristics.finalize_if_supported()) return {};  // none of this mode
  return descriptors_of(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMaxConfigs);
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const CudnnDescriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  int64_t count = 0;
  check_cudnn(cudnn().get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                    &count, notes.data()),
              "cudnnBackendGetAttribute");
  return {notes.begin(), notes.begin() + std::min<int64_t>(count, notes.size())};
}

std::vector<EngineKnob> knobs_of(const CudnnDescriptor& config) {
  std::vector<EngineKnob> knobs;
  for (const CudnnDescriptor& knob :
       descriptors_of(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                      CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    cudnnBackendKnobType_t type{};
    int64_t count = 0;
    check_cudnn(cudnn().get_attribute(knob.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                      CUDNN_TYPE_KNOB_TYPE, 1, &count, &type),
                "cudnnBackendGetAttribute");
    knobs.push_back({type, knob.get_int64(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)});
  }
  return knobs;
}

/// Fills in the rest where the configuration is acceptable and the library can build its plan.
bool complete(Engine& engine, const ConvolutionCall& call, const CudnnDescriptor& device) {
  CudnnDescriptor described(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.config.get_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, described);
  if (!is_acceptable(notes_of(described), call.dtype, call.allow_tf32)) return false;
  engine.plan = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  engine.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  engine.plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
  if (!engine.plan.finalize_if_supported()) return false;
  engine.choice = {.engine = described.get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                   .knobs = knobs_of(engine.config),
                   .workspace = engine.plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)};
  return engine.choice.workspace <= kWorkspaceCap;
}

CudnnDescriptor make_knob(const EngineKnob& knob) {
  expect<BadParameterError>(knob.type >= 0 && knob.type < CUDNN_KNOB_TYPE_COUNTS, "cudnn",
                            "expected a knob from 0 to {}, got {}", CUDNN_KNOB_TYPE_COUNTS - 1,
                            knob.type);
  const auto type = static_cast<cudnnBackendKnobType_t>(knob.type);
  CudnnDescriptor descriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
  descriptor.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, knob.value);
  descriptor.finalize();
  return descriptor;
}

/// Without its plan.
Engine configured(const ConvolutionGraph& graph, const CudnnDescriptor& device,
                  const EngineChoice& kept) {
  CudnnDescriptor described(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  described.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.get());
  described.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, kept.engine);
  described.set(CUDNN_ATTR_ENGINE_DEVICEPROP, device);
  described.finalize();
  Engine engine{.config = CudnnDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)};
  engine.config.set(CUDNN_ATTR_ENGINECFG_ENGINE, described);
  engine.parts.push_back(std::move(described));
  std::vector<cudnnBackendDescriptor_t> knobs;
  for (const EngineKnob& knob : kept.knobs)
    knobs.push_back(engine.parts.emplace_back(make_knob(knob)).get());
  if (!knobs.empty())
    engine.config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      static_cast<int64_t>(knobs.size()), knobs.data());
  engine.config.finalize();
  return engine;
}

/// Ids of the first buffer, the second, the result and the bias in the graph.
std::array<int64_t, 4> argument_numbers(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {kX, kWeight, kY, kBias};
    case ConvPass::backward_data:
      return {kY, kWeight, kX, kBias};
    case ConvPass::backward_weight:
      return {kX, kY, kWeight, kBias};
  }
  raise<InternalError>("conv2d", "unknown pass {}", static_cast<int>(pass));
}

}  // namespace

CudnnDescriptor device_properties(Device device) {
  CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const int32_t number = device.index;
  properties.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &number);
  properties.finalize();
  return properties;
}

CudnnDescriptor device_properties(const std::string& json) {
  CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             static_cast<int64_t>(json.size() + 1), json.c_str());
  device.finalize();
  return device;
}

std::vector<Engine> find_engines(const ConvolutionCall& call, const ConvolutionGraph& graph,
                                 const CudnnDescriptor& device, size_t most) {
  std::vector<Engine> engines;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (engines.size() == most) break;
    for (CudnnDescriptor& config : configs_of(graph, mode, device)) {
      Engine engine{.config = std::move(config)};
      if (complete(engine, call, device)) engines.push_back(std::move(engine));
      if (engines.size() == most) break;
    }
  }
  if (!engines.empty()) return engines;
  raise<UnsupportedError>("conv2d", "cuDNN has no deterministic engine in full precision");
}

std::optional<Engine> rebuild_engine(const ConvolutionCall& call, const ConvolutionGraph& graph,
                                     const CudnnDescriptor& device, const EngineChoice& kept) {
  try {
    Engine engine = configured(graph, device, kept);
    if (complete(engine, call, device) && engine.choice.workspace == kept.workspace) return engine;
    return {};
  } catch (const UnsupportedError&) {
    return {};
  } catch (const BadParameterError&) {  // of the file that it was read from
    return {};
  }
}

Engine select_engine(const ConvolutionCall& call, const ConvolutionGraph& graph,
                     const CudnnDescriptor& device, const EngineSelection& selection) {
  const std::string name = name_of(call);
  if (const std::optional<EngineChoice> kept = selection.table.offered(name))
    if (std::optional<Engine> engine = rebuild_engine(call, graph, device, *kept)) {
      selection.table.choose(name, *kept, /*lasts=*/false);
      return std::move(*engine);
    }
  const bool times = selection.make_timer != nullptr;
  std::vector<Engine> engines = find_engines(call, graph, device, times ? kMostTimed : 1);
  std::optional<size_t> fastest;
  if (times) fastest = fastest_engine(engines.size(), selection.make_timer(engines));
  if (EngineTimingScope* scope = EngineTimingScope::current(); times && scope != nullptr)
    scope->count(fastest.has_value());
  Engine engine = std::move(engines[fastest.value_or(0)]);
  engine.choice.timed = fastest.has_value();
  // What was to be timed and met no timer is not known yet.
  selection.table.choose(name, engine.choice, /*lasts=*/times || !call.benchmark);
  return engine;
}

void execute(const ConvolutionCall& call, cudnnHandle_t handle, const Engine& engine,
             const ConvolutionBuffers& buffers) {
  std::array<int64_t, 4> numbers = argument_numbers(call.pass);
  std::array<const void*, 4> pointers{buffers.first, buffers.second, buffers.result, buffers.bias};
  const int64_t count = call.bias ? 4 : 3;
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &buffers.workspace);
  pack.finalize();
  check_cudnn(cudnn().execute(handle, engine.plan.get(), pack.get()), "cudnnBackendExecute");
}

bool is_acceptable(const std::vector<cudnnBackendNumericalNote_t>& notes, Dtype dtype,
                   bool allow_tf32) {
  return std::ranges::none_of(notes, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return dtype == Dtype::float32 && !allow_tf32;  // TF32: 10 bits of mantissa
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:  // not deterministic, narrower numbers, or the errors of a transform
        return true;
    }
  });
}

}  // namespace brim::cuda
