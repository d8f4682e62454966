// How fast a device is, as far as the times of ops are predicted from it: a roofline, in which each
// op takes the longer of its arithmetic and its traffic (Williams, Waterman and Patterson,
// "Roofline: an insightful visual performance model", 2009), plus a start-up. The defaults are
// nominal: the same on every machine, good for ratios. Those of this machine come from
// train/calibration.h; times of each op as it is, from train/measured_ops.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "brim/memory/site.h"

namespace brim {

/// What an op reaches when arithmetic, or traffic, is all that it waits for.
struct Rates {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  friend bool operator==(const Rates&, const Rates&) = default;
};

/// The defaults are a processor of two or three cores: what counts is how they relate.
struct DeviceSpeed {
  double flops_per_second = 500e9;
  double bytes_per_second = 73e9;
  double seconds_per_op = 5e-6;
  /// Of copies to host memory beside compute, and of copies back, each way: what PCIe 3 gives a
  /// device, and about what one thread copies.
  double host_bytes_per_second = 12e9;
  /// Of ops with rates of their own, by `run_name`.
  std::map<std::string, Rates, std::less<>> of_ops = {};
  friend bool operator==(const DeviceSpeed&, const DeviceSpeed&) = default;
};

/// "conv2d backward".
std::string run_name(std::string_view op, memory::Phase phase);

/// Of one op: the longer of its arithmetic and its traffic, and its start.
double roofline_seconds(double flops, int64_t bytes_moved, const DeviceSpeed& speed);
/// The same with the rates of that op, where it has some; running forward again has those of
/// forward where it has none.
double roofline_seconds(std::string_view op, memory::Phase phase, double flops, int64_t bytes_moved,
                        const DeviceSpeed& speed);

}  // namespace brim
