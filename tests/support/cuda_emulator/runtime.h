// What the files of the emulated runtime share. Internal to them.
#pragma once

#include <cuda_runtime_api.h>

namespace brim::cuda::emulator {

/// The error, which `cudaGetLastError` tells from now on.
cudaError_t failed(cudaError_t error);
/// An error once a kernel did what it must not.
cudaError_t state();

/// Is what this thread enqueues recorded, and not done?
bool is_recording();
/// What it is told that waits while it records, and spoils the recording.
cudaError_t refuse_to_wait();
/// Does work wait for somebody to wait for it (`LateScope`)?
bool is_queued();

}  // namespace brim::cuda::emulator
