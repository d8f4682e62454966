// The roof of this machine: the most arithmetic and the most traffic that its processor was seen to
// reach, and what a piece of work takes at least under it (docs/roofline.md). For saying how near a
// profile is to what is possible (train/profile_report.h). Predictions want rates that typical ops
// reach instead: train/calibration.h.
#pragma once

namespace brim {

struct LaunchCost;

struct MachinePeak {
  double flops_per_second = 0;       ///< of float32
  double half_flops_per_second = 0;  ///< of bfloat16, where the processor has such arithmetic
  double bytes_per_second = 0;       ///< read and written, of memory, not of caches
};

/// Of the CPU with the threads that kernels have now: the fastest of a few runs of large products,
/// of convolutions, and of sweeps over more than its caches hold. About a second, and at most 128
/// MiB in an account of its own: measure before a training has its bytes. Throws
/// `memory::OutOfMemory`.
MachinePeak measured_peak();

/// Seconds of `cost` at the roof: the longer of its arithmetic and its traffic, float32 copies of
/// halves left out. What its op finds in a cache can take less.
double least_seconds(const LaunchCost& cost, const MachinePeak& peak);

}  // namespace brim
