#include "brim/train/device_speed.h"

#include <fmt/core.h>

#include <algorithm>

namespace brim {
namespace {

using memory::Phase;

double seconds_at(double flops, int64_t bytes_moved, const Rates& rates, double start) {
  return std::max(flops / rates.flops_per_second,
                  static_cast<double>(bytes_moved) / rates.bytes_per_second) +
         start;
}

}  // namespace

std::string run_name(std::string_view op, Phase phase) {
  return fmt::format("{} {}", op, memory::to_string(phase));
}

double roofline_seconds(double flops, int64_t bytes_moved, const DeviceSpeed& speed) {
  return seconds_at(flops, bytes_moved, {speed.flops_per_second, speed.bytes_per_second},
                    speed.seconds_per_op);
}

double roofline_seconds(std::string_view op, Phase phase, double flops, int64_t bytes_moved,
                        const DeviceSpeed& speed) {
  if (speed.of_ops.empty()) return roofline_seconds(flops, bytes_moved, speed);
  auto found = speed.of_ops.find(run_name(op, phase));
  if (found == speed.of_ops.end() && phase == Phase::recompute)
    found = speed.of_ops.find(run_name(op, Phase::forward));
  if (found == speed.of_ops.end()) return roofline_seconds(flops, bytes_moved, speed);
  return seconds_at(flops, bytes_moved, found->second, speed.seconds_per_op);
}

}  // namespace brim
