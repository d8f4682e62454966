#include "brim/base/cuda/graph.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/cuda/stream.h"

namespace brim::cuda {
namespace {

thread_local Recording* current = nullptr;

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept { cudaGraphDestroy(graph); }
};
using RecordedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

}  // namespace

void Graph::Destroy::operator()(CUgraphExec_st* graph) const noexcept {
  cudaGraphExecDestroy(graph);
}

void Graph::start() const {
  if (graph_ == nullptr) return;
  DeviceScope scope(device_);
  check(cudaGraphLaunch(graph_.get(), default_stream(device_).handle()), "cudaGraphLaunch");
}

Recording* Recording::current() { return cuda::current; }

Recording::Recording(Device device, Pinned pinned) : device_(device), pinned_(std::move(pinned)) {
  expect<ValueError>(cuda::current == nullptr, "cuda", "this thread is recording already");
  DeviceScope scope(device);
  // Relaxed: that this thread asks the driver for memory meanwhile, pinned memory above all, is no
  // part of what is recorded.
  check(cudaStreamBeginCapture(default_stream(device).handle(), cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  cuda::current = this;
}

Recording::~Recording() {
  if (cuda::current != this) return;
  leave();
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(default_stream(device_).handle(), &graph);
  cudaGetLastError();  // of a recording that nobody wants
  if (graph != nullptr) cudaGraphDestroy(graph);
}

void Recording::leave() noexcept { cuda::current = nullptr; }

Graph Recording::finish() {
  brim::check(cuda::current == this, "a recording that is finished is under way");
  leave();
  DeviceScope scope(device_);
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(default_stream(device_).handle(), &recorded), "cudaStreamEndCapture");
  const RecordedGraph graph(recorded);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph.get(), 0), "cudaGraphInstantiate");
  Graph result;
  result.device_ = device_;
  result.graph_.reset(made);
  // Else the first start would do it, and be the one to find that there is no memory for it.
  check(cudaGraphUpload(made, default_stream(device_).handle()), "cudaGraphUpload");
  return result;
}

void Recording::upload(void* to, const void* from, int64_t bytes) {
  void* pinned = pinned_(bytes);
  std::memcpy(pinned, from, static_cast<size_t>(bytes));
  uploads_.push_back({from, pinned, bytes});
  enqueue_copy(default_stream(device_), to, pinned, bytes, CopyKind::to_device);
}

}  // namespace brim::cuda
