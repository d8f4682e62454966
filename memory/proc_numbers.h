// The numbers in the system's files about memory: /proc/meminfo, /proc/self/status, memory.stat of
// a control group. For memory/host_memory.h and memory/memory_bounds.h, which say what they mean.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace brim::memory {

/// By name, from lines "name: number kB", in bytes, and "name number", as it is. Other lines are
/// passed over; a file that cannot be read has none.
std::map<std::string, int64_t> proc_numbers(const std::string& file);

}  // namespace brim::memory
