#include "brim/ops/cuda/convolution_graph.cuh"

#include <algorithm>
#include <array>

#include "brim/ops/cuda/workspace.h"

namespace brim::cuda {
namespace {

cudnnDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return CUDNN_DATA_DOUBLE;
    case Dtype::float16:
      return CUDNN_DATA_HALF;
    case Dtype::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

/// What products are added in.
cudnnDataType_t compute_type(Dtype dtype) {
  return data_type(is_low_precision(dtype) ? Dtype::float32 : dtype);
}

/// Four axes in cuDNN's order, images or output channels first, then channels, height and width;
/// in memory the channels are innermost. Between operations: in no memory, and not rounded.
CudnnDescriptor make_tensor(const ConvolutionCall& call, int64_t number, int64_t n, int64_t c,
                            int64_t h, int64_t w, bool is_between = false) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE,
             is_between ? compute_type(call.dtype) : data_type(call.dtype));
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_between);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w});
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c});
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, call.alignment);
  tensor.finalize();
  return tensor;
}

CudnnDescriptor make_window(const ConvolutionCall& call) {
  const ConvShape& s = call.shape;
  CudnnDescriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type(call.dtype));
  window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  window.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {s.padding.h, s.padding.w});
  window.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {s.padding.h, s.padding.w});
  window.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {s.dilation.h, s.dilation.w});
  window.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {s.stride.h, s.stride.w});
  window.finalize();
  return window;
}

/// The names that an operation's attributes have in one pass.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, weight, y, window, alpha, beta;
};

Names names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::backward_weight:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  raise<InternalError>("conv2d", "unknown pass {}", static_cast<int>(pass));
}

// More engines than cuDNN has for any convolution: a longer list is cut.
constexpr int64_t kMaxConfigs = 64;

std::vector<CudnnDescriptor> configs_of(const ConvolutionGraph& graph, cudnnBackendHeurMode_t mode,
                                        const CudnnDescriptor& device) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device.get() != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS) return {};  // none of this mode
  std::vector<CudnnDescriptor> configs;
  std::array<cudnnBackendDescriptor_t, kMaxConfigs> raw{};
  for (auto& descriptor : raw) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    descriptor = configs.back().get();
  }
  int64_t count = 0;
  check_cudnn(cudnn().get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, kMaxConfigs, &count, raw.data()),
              "cudnnBackendGetAttribute");
  configs.resize(static_cast<size_t>(std::min(count, kMaxConfigs)));
  return configs;
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

/// Fills in the rest where the configuration is acceptable and the library can build its plan.
bool complete(Engine& engine, Dtype dtype, const CudnnDescriptor& device) {
  CudnnDescriptor described(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.config.get_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, described);
  if (!is_acceptable(notes_of(described), dtype)) return false;
  engine.number = described.get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  engine.plan = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  engine.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  if (device.get() != nullptr) engine.plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
  if (engine.plan.try_finalize() != CUDNN_STATUS_SUCCESS) return false;
  engine.workspace = engine.plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  return engine.workspace <= kWorkspaceCap;
}

}  // namespace

ConvolutionGraph::ConvolutionGraph(const ConvolutionCall& call)
    : x_(make_tensor(call, kX, call.shape.n, call.shape.c, call.shape.h, call.shape.w)),
      weight_(make_tensor(call, kWeight, call.shape.k, call.shape.group_channels(), call.shape.r,
                          call.shape.s)),
      y_(make_tensor(call, kY, call.shape.n, call.shape.k, call.shape.p, call.shape.q)),
      window_(make_window(call)) {
  Names names = names_of(call.pass);
  operation_ = CudnnDescriptor(names.operation);
  operation_.set(names.x, x_);
  operation_.set(names.weight, weight_);
  if (call.bias) add_bias(call);
  operation_.set(names.y, call.bias ? sum_ : y_);
  operation_.set(names.window, window_);
  operation_.set(names.alpha, 1.0);
  operation_.set(names.beta, 0.0);
  operation_.finalize();
  graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::array<cudnnBackendDescriptor_t, 2> operations{operation_.get(), addition_.get()};
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, call.bias ? 2 : 1,
             operations.data());
  graph_.finalize();
}

void ConvolutionGraph::add_bias(const ConvolutionCall& call) {
  const ConvShape& s = call.shape;
  sum_ = make_tensor(call, kSum, s.n, s.k, s.p, s.q, /*is_between=*/true);
  bias_ = make_tensor(call, kBias, 1, s.k, 1, 1);
  plus_ = CudnnDescriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  plus_.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  plus_.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type(call.dtype));
  plus_.finalize();
  addition_ = CudnnDescriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  addition_.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, plus_);
  addition_.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum_);
  addition_.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias_);
  addition_.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y_);
  addition_.finalize();
}

CudnnDescriptor device_properties(const std::string& json) {
  if (json.empty()) return {};
  CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             static_cast<int64_t>(json.size() + 1), json.c_str());
  device.finalize();
  return device;
}

Engine find_engine(const ConvolutionCall& call, const ConvolutionGraph& graph,
                   const CudnnDescriptor& device) {
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (CudnnDescriptor& config : configs_of(graph, mode, device)) {
      Engine engine{.config = std::move(config)};
      if (complete(engine, call.dtype, device)) return engine;
    }
  const ConvShape& s = call.shape;
  raise<DeviceError>("conv2d",
                     "cuDNN has no deterministic engine in full precision for {} x [{},{},{},{}] "
                     "with weight [{},{},{},{}]",
                     to_string(call.dtype), s.n, s.h, s.w, s.c, s.k, s.r, s.s, s.group_channels());
}

bool is_acceptable(const std::vector<cudnnBackendNumericalNote_t>& notes, Dtype dtype) {
  return std::ranges::none_of(notes, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return dtype == Dtype::float32;  // TF32: 10 bits of mantissa
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:  // not deterministic, narrower numbers, or the errors of a transform
        return true;
    }
  });
}

}  // namespace brim::cuda
