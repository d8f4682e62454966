// Runs of a convolution's engines on a GPU, for who chooses the fastest: on buffers of its sizes,
// in bytes of a source that nobody else uses meanwhile.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>

#include "brim/base/cuda/error.h"
#include "brim/base/cuda/event.h"
#include "brim/base/cuda/stream.h"
#include "brim/memory/source.h"
#include "brim/ops/cuda/engine.cuh"

namespace brim::cuda {
namespace {

// Of every byte: a number of ordinary size in each dtype. Zeros would take less power than a
// training does.
constexpr int kByte = 0x3c;

// Between two events, so that the host's part of a start is not what is timed.
constexpr int kRuns = 4;

int64_t round_up(int64_t bytes, int64_t boundary) {
  return (bytes + boundary - 1) / boundary * boundary;
}

class EngineRuns {
 public:
  EngineRuns(const ConvolutionCall& call, Device device, const std::vector<Engine>& engines,
             memory::Source& source)
      : call_(call),
        stream_(default_stream(device)),
        handle_(cudnn_handle(device)),
        engines_(engines),
        source_(source),
        begin_(device, {.timed = true}),
        end_(device, {.timed = true}) {
    take_buffers();
    if (base_ != nullptr)
      check(cudaMemsetAsync(base_, kByte, static_cast<size_t>(bytes_), stream_.handle()),
            "cudaMemsetAsync");
  }

  ~EngineRuns() {
    if (base_ == nullptr) return;
    cudaStreamSynchronize(stream_.handle());  // an error is the next call's
    source_.deallocate(base_, bytes_);
  }
  EngineRuns(const EngineRuns&) = delete;
  EngineRuns& operator=(const EngineRuns&) = delete;

  std::optional<double> seconds(size_t engine) {
    if (base_ == nullptr) return {};
    try {
      begin_.record(stream_);
      for (int i = 0; i < kRuns; ++i) execute(call_, handle_, engines_[engine], buffers_);
      end_.record(stream_);
      end_.synchronize();
      return seconds_between(begin_, end_) / kRuns;
    } catch (const UnsupportedError&) {
      return {};  // another candidate may run
    }
  }

 private:
  void take_buffers() {
    const ConvShape& s = call_.shape;
    const int64_t size = size_of(call_.dtype);
    const int64_t x = s.n * s.h * s.w * s.c * size, weight = s.k * s.window() * size,
                  y = s.pixels() * s.k * size, bias = call_.bias ? s.k * size : 0;
    int64_t workspace = 0;
    for (const Engine& engine : engines_) workspace = std::max(workspace, engine.choice.workspace);
    int64_t used = 0;
    auto place = [&](int64_t bytes) {
      constexpr int64_t kBoundary = 256;
      return std::exchange(used, used + round_up(bytes, kBoundary));
    };
    const int64_t at_x = place(x), at_weight = place(weight), at_y = place(y),
                  at_bias = place(bias), at_workspace = place(workspace);
    bytes_ = round_up(used, source_.pages().bytes);
    base_ = source_.allocate(bytes_);
    if (base_ == nullptr) return;
    auto at = [&](int64_t offset) { return static_cast<char*>(base_) + offset; };
    const bool data = call_.pass == ConvPass::backward_data,
               weights = call_.pass == ConvPass::backward_weight;
    buffers_ = {.first = at(data ? at_y : at_x),
                .second = at(weights ? at_y : at_weight),
                .bias = call_.bias ? at(at_bias) : nullptr,
                .result = at(data      ? at_x
                             : weights ? at_weight
                                       : at_y),
                .workspace = workspace > 0 ? at(at_workspace) : nullptr};
  }

  ConvolutionCall call_;
  const Stream& stream_;
  cudnnHandle_t handle_;
  const std::vector<Engine>& engines_;
  memory::Source& source_;
  Event begin_, end_;
  int64_t bytes_ = 0;
  void* base_ = nullptr;  // null where there was no room
  ConvolutionBuffers buffers_;
};

}  // namespace

EngineTimer engine_timer(const ConvolutionCall& call, Device device,
                         const std::vector<Engine>& engines, memory::Source& source) {
  auto runs = std::make_shared<EngineRuns>(call, device, engines, source);
  return [runs](size_t engine) { return runs->seconds(engine); };
}

}  // namespace brim::cuda
