// An emulated GPU that is late keeps its streams as far apart as the program lets it: where one
// does not wait for another, a test sees it. Here are both kinds of programs.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <stdexcept>

#include "brim/tests/support/cuda_emulator/troubles.h"

using namespace brim::cuda;
using emulator::OtherStreams;

namespace {

/// Two streams, an event, and numbers on the device and in pinned memory, which begin as 0.
class Machine {
 public:
  Machine() {
    for (cudaStream_t *stream : {&older, &newer})
      cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMalloc(reinterpret_cast<void **>(&device), sizeof(int));
    cudaHostAlloc(reinterpret_cast<void **>(&host), sizeof(int), cudaHostAllocPortable);
    *device = *host = 0;
  }
  ~Machine() {
    cudaFree(device);
    cudaFreeHost(host);
    cudaEventDestroy(event);
    for (cudaStream_t stream : {older, newer}) cudaStreamDestroy(stream);
  }

  void write(cudaStream_t stream, int value) {
    emulator::enqueue(stream, [to = device, value] { *to = value; });
  }
  void copy_to_host(cudaStream_t stream) {
    cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, stream);
  }
  /// `waiting` for all that is on `waited` now.
  void order(cudaStream_t waiting, cudaStream_t waited) {
    cudaEventRecord(event, waited);
    cudaStreamWaitEvent(waiting, event);
  }

  cudaStream_t older = nullptr, newer = nullptr;
  cudaEvent_t event = nullptr;
  int *device = nullptr, *host = nullptr;
};

/// What comes to the host of the 1 that one stream writes and the other copies there.
int copied(OtherStreams others, bool orders) {
  Machine m;
  emulator::LateScope late(others);
  m.write(m.older, 1);
  if (orders) m.order(m.newer, m.older);
  m.copy_to_host(m.newer);
  CHECK(cudaStreamSynchronize(m.newer) == cudaSuccess);
  return *m.host;
}

/// The same, where the first then writes a 2 over it, and is all that the host waits for.
int overwritten(OtherStreams others, bool orders) {
  Machine m;
  emulator::LateScope late(others);
  m.write(m.older, 1);
  m.order(m.newer, m.older);
  m.copy_to_host(m.newer);
  if (orders) m.order(m.older, m.newer);
  m.write(m.older, 2);
  cudaStreamSynchronize(m.older);
  cudaDeviceSynchronize();
  CHECK(*m.device == 2);
  return *m.host;
}

/// The same, where the first then waits for the copy, which may have come too early.
int copied_ahead(OtherStreams others, bool orders) {
  Machine m;
  emulator::LateScope late(others);
  m.write(m.older, 1);
  if (orders) m.order(m.newer, m.older);
  m.copy_to_host(m.newer);
  m.order(m.older, m.newer);
  cudaStreamSynchronize(m.older);
  return *m.host;
}

}  // namespace

TEST_CASE("late streams: who waits for another sees what it did, and who does not does not") {
  for (OtherStreams others : {OtherStreams::stay, OtherStreams::run_ahead}) {
    CHECK(copied(others, true) == 1);
    CHECK(overwritten(others, true) == 1);
    CHECK(copied_ahead(others, true) == 1);
  }
  CHECK(copied(OtherStreams::stay, false) == 0);
  CHECK(overwritten(OtherStreams::stay, false) == 2);
  CHECK(copied_ahead(OtherStreams::run_ahead, false) == 0);
}

TEST_CASE("late streams: what is waited for is done, to the event, and no more") {
  Machine m;
  emulator::LateScope late;
  m.write(m.older, 1);
  cudaEventRecord(m.event, m.older);
  CHECK(cudaEventQuery(m.event) == cudaErrorNotReady);
  m.write(m.older, 2);
  m.write(m.newer, 3);
  CHECK(emulator::work_left() == 3);
  CHECK(cudaEventSynchronize(m.event) == cudaSuccess);
  CHECK(cudaEventQuery(m.event) == cudaSuccess);
  CHECK(*m.device == 1);
  cudaStreamSynchronize(m.newer);
  CHECK(*m.device == 3);
  CHECK(emulator::work_left() == 1);
  cudaDeviceSynchronize();
  CHECK(*m.device == 2);
  CHECK(emulator::work_left() == 0);
  cudaGetLastError();
}

TEST_CASE("late streams: a wait is for what the event had marked, whatever becomes of it") {
  Machine m;
  emulator::LateScope late;
  m.write(m.older, 1);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, m.older);
  cudaStreamWaitEvent(m.newer, event);
  m.write(m.older, 2);
  cudaEventRecord(event, m.older);
  cudaEventDestroy(event);
  m.copy_to_host(m.newer);
  cudaStreamSynchronize(m.newer);
  CHECK(*m.host == 1);
}

TEST_CASE(
    "late streams: a wait reaches through a third stream, and an event of none holds nobody") {
  Machine m;
  cudaStream_t third = nullptr;
  cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking);
  emulator::LateScope late;
  cudaStreamWaitEvent(m.newer, m.event);
  m.write(m.older, 1);
  m.order(third, m.older);
  m.order(m.newer, third);
  m.copy_to_host(m.newer);
  cudaStreamDestroy(third);
  cudaStreamSynchronize(m.newer);
  CHECK(*m.host == 1);
}

TEST_CASE("late streams: memory goes when its stream is there, or when all of them are done") {
  Machine m;
  void *in_stream = nullptr, *at_once = nullptr;
  cudaMallocAsync(&in_stream, 4, m.older);
  cudaMalloc(&at_once, 4);
  emulator::LateScope late;
  m.write(m.newer, 1);
  cudaMemsetAsync(in_stream, 1, 4, m.older);
  CHECK(cudaFreeAsync(in_stream, m.older) == cudaSuccess);
  CHECK(emulator::work_left() == 3);
  CHECK(cudaFree(at_once) == cudaSuccess);
  CHECK(emulator::work_left() == 0);
}

TEST_CASE("late streams: a kernel's fault is found when its stream is waited for, then by all") {
  Machine m;
  emulator::LateScope late;
  emulator::enqueue(m.newer, [] { throw std::out_of_range("an address"); });
  m.write(m.older, 1);
  CHECK(cudaStreamSynchronize(m.older) == cudaSuccess);
  CHECK(cudaStreamSynchronize(m.newer) == cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(m.older) == cudaErrorIllegalAddress);
}
