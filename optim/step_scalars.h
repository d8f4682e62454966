// The few numbers of an update that change from step to step, in a small buffer on the parameters'
// device. Kernels read them there, so a recorded graph of an update can run again with other
// values, and nothing waits for the host.
#pragma once

#include <array>

#include "brim/base/host_device.h"
#include "brim/core/launch.h"
#include "brim/optim/clip.h"

namespace brim::optim {

struct StepValues {
  double rate = 0;                         ///< the learning rate
  double loss_scale = 1;                   ///< gradients are this many times too large
  int64_t step = 1;                        ///< number of the update, from 1
  double clip_value = ClipOptions::kNone;  ///< limit on the magnitude of an unscaled element
  double clip_norm = ClipOptions::kNone;   ///< limit on the norm of all of them
  double clip_factor = 1;                  ///< of all elements, by their norm
  bool applied = true;                     ///< else nothing changes, until the device says so
};

class StepScalars {
 public:
  /// Places in the buffer, which is float64.
  enum Place { kRate, kInverseScale, kStep, kClipValue, kClipNorm, kClipFactor, kApplied, kCount };

  /// Throws `DeviceError` in the optimizer's name for a device without the kernel,
  /// `memory::OutOfMemory`.
  StepScalars(const char* optimizer, Device device);
  /// Neither allocates nor throws. Does nothing where work is recorded (base/cuda/graph.h), which
  /// reads what is written before it starts.
  void write(const StepValues& values) noexcept;
  const Tensor& buffer() const { return buffer_; }

 private:
  Tensor buffer_;
};

/// The number of the update, of the buffer's values.
BRIM_HOST_DEVICE inline uint64_t step_of(const double* scalars) {
  return static_cast<uint64_t>(scalars[StepScalars::kStep]);
}

/// Whether the update takes place: what a recorded one finds out on the device (optim/judge.h).
BRIM_HOST_DEVICE inline bool is_applied(const double* scalars) {
  return scalars[StepScalars::kApplied] != 0;
}

}  // namespace brim::optim

namespace brim::kernel {

struct StepScalarsAttributes {
  std::array<double, optim::StepScalars::kCount> values{};
};
/// out: a float64 buffer of as many elements, which becomes the values.
inline constexpr Kernel<StepScalarsAttributes> step_scalars{"step_scalars"};

}  // namespace brim::kernel
