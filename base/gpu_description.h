// GPUs as cuDNN takes them described, so that its heuristics can be asked on a machine that has
// none which engine they would choose on a card with these figures, and with what workspace. Only
// cards whose figures are known; what a plan needs besides of many more is in train/cards.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace brim {

/// All sizes in bytes.
struct GpuDescription {
  std::string_view card;     ///< as in train/cards.h
  std::string_view name;     ///< "NVIDIA H100 80GB HBM3", as CUDA has it
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  int clock_mhz = 0, memory_clock_mhz = 0;
  int64_t memory = 0, l2_cache = 0;
};

/// Null for a card without one.
const GpuDescription* gpu_description(std::string_view card);

/// For CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION (cuDNN 9.8 and later).
std::string to_json(const GpuDescription& gpu);

}  // namespace brim
