// Stands in for what cuDNN computes where kernels are emulated: nothing, unless a test gives
// something. An op that wants it says so, as where its kernel is not in the table: when it is asked
// for, since depthwise convolutions are brim's own.
#include "brim/ops/cuda/no_libraries.h"

#include <deque>

#include "brim/base/error.h"
#include "brim/ops/cuda/engine_kind.h"
#include "brim/ops/cuda/register.h"
#include "brim/ops/cuda/warm_up.h"

namespace brim::cuda {

class Convolution {
 public:
  explicit Convolution(const ConvolutionCall& call) : call(call) {}
  const ConvolutionCall call;
};

namespace {
PlainConvolution plain = nullptr;
}  // namespace

void set_plain_convolution(PlainConvolution convolve) { plain = convolve; }

void warm_up(Device, std::span<const Dtype>) {}

std::string engine_kind(Device) { return ""; }

std::string properties_json(Device) { return ""; }

const Convolution& find_convolution(const ConvolutionCall& call, Device device, AskedFor) {
  expect<DtypeError>(plain != nullptr, "conv2d",
                     "has no kernel for {} on {}, but for depthwise windows", call.dtype, device);
  static auto* asked_for = new std::deque<Convolution>;
  return asked_for->emplace_back(call);
}

bool has_convolution(const ConvolutionCall&, Device, AskedFor) { return false; }  // of halves

int64_t planned_workspace(const ConvolutionCall&) { return 0; }

bool has_planned_engine(const ConvolutionCall&) { return false; }  // of halves

int64_t workspace_bytes(const Convolution&) { return 0; }

void run(const Convolution& convolution, const ConvolutionBuffers& buffers) {
  plain(convolution.call, buffers);
}

}  // namespace brim::cuda
