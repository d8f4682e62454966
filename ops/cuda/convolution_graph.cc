#include "brim/ops/cuda/convolution_graph.cuh"

#include <array>

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

}  // namespace brim::cuda
