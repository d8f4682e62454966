// Streams, events and graphs of CUDA's runtime on the host: when work is done, and what is
// recorded.
#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "brim/tests/support/cuda_emulator/runtime.h"
#include "brim/tests/support/cuda_emulator/streams.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

struct CUstream_st {
  std::shared_ptr<brim::cuda::emulator::StreamQueue> queue = brim::cuda::emulator::new_queue();
};
struct CUevent_st {
  bool timed = false;
  brim::cuda::emulator::Mark place;
  std::chrono::steady_clock::time_point mark;
};
struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

namespace {

namespace emulator = brim::cuda::emulator;
using emulator::failed, emulator::state;

thread_local CUgraph_st* recording = nullptr;
thread_local bool recording_waited = false;

bool is_late = false;

const std::shared_ptr<emulator::StreamQueue>& queue_of(cudaStream_t stream) {
  static auto* unnamed = new CUstream_st;
  return stream == nullptr ? unnamed->queue : stream->queue;
}

}  // namespace

bool brim::cuda::emulator::is_recording() { return recording != nullptr; }

cudaError_t brim::cuda::emulator::refuse_to_wait() {
  recording_waited = true;
  return failed(cudaErrorStreamCaptureUnsupported);
}

bool brim::cuda::emulator::is_queued() { return is_late && recording == nullptr; }

void brim::cuda::emulator::enqueue(void* stream, std::function<void()> work) {
  if (recording != nullptr) return recording->work.push_back(std::move(work));
  if (!is_late) return work();
  add(*queue_of(static_cast<cudaStream_t>(stream)), std::move(work));
}

brim::cuda::emulator::LateScope::LateScope(OtherStreams others) {
  set_other_streams(others);
  is_late = true;
}

brim::cuda::emulator::LateScope::~LateScope() {
  run_all();
  forgive();
  is_late = false;
  cudaGetLastError();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (recording != nullptr) return emulator::refuse_to_wait();
  emulator::run_to(emulator::end_of(queue_of(stream)));
  return state();
}

// For what was recorded last, whatever becomes of the event.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (emulator::is_queued()) emulator::add_wait(*queue_of(stream), event->place);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.timed = (flags & cudaEventDisableTiming) == 0, .place = {}, .mark = {}};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->mark = std::chrono::steady_clock::now();
  event->place = emulator::is_queued() ? emulator::end_of(queue_of(stream)) : emulator::Mark{};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulator::run_to(event->place);
  return state();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return emulator::is_reached(event->place) ? cudaSuccess : failed(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->timed || !end->timed) return failed(cudaErrorInvalidResourceHandle);
  if (!emulator::is_reached(begin->place) || !emulator::is_reached(end->place))
    return failed(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark - begin->mark).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (recording != nullptr) return failed(cudaErrorStreamCaptureUnsupported);
  recording = new CUgraph_st;
  recording_waited = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(recording, nullptr);
  if (*graph == nullptr) return failed(cudaErrorInvalidValue);
  if (!recording_waited) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return failed(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (const std::function<void()>& work : graph->work) emulator::enqueue(stream, work);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
