// How long an update takes, from what its rehearsal computes and moves: a roofline, in which each
// op takes the longer of its arithmetic and its traffic (Williams, Waterman and Patterson,
// "Roofline: an insightful visual performance model", 2009), plus a start-up. For ratios between
// ways of running the same training; seconds that one can trust need a measurement
// (train/batch_speed.h).
#pragma once

#include "brim/train/rehearsal.h"

namespace brim {

/// The defaults are a processor of two or three cores: what counts is how they relate.
struct DeviceSpeed {
  double flops_per_second = 500e9;
  double bytes_per_second = 73e9;
  double seconds_per_op = 5e-6;
  /// Of copies to host memory beside compute, and of copies back, each way: what PCIe 3 gives a
  /// device, and about what one thread copies.
  double host_bytes_per_second = 12e9;
};

/// Of one op: the longer of its arithmetic and its traffic, and its start.
double roofline_seconds(double flops, int64_t bytes_moved, const DeviceSpeed& speed);

/// Of one whole update with all its micro-batches and their waits for copies
/// (`RecomputeOptions::wait_seconds`), without the wait for its images. Rehearses it up to three
/// times.
double predicted_seconds(const RehearsalOptions& training, const DeviceSpeed& speed = {});

}  // namespace brim
