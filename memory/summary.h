// A device's memory in the numbers and under the names that people know from other frameworks, as
// a table, and buffer by buffer. All of it reads the account that the device has now. Programs that
// want several numbers of one moment take `Account::stats()`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "brim/memory/account.h"

namespace brim::memory {

/// Live bytes: what tensors and kernels hold.
int64_t memory_allocated(Device device);
/// The most of them since the account was made, or `reset_peak`.
int64_t max_memory_allocated(Device device);
/// Bytes taken from the device: live, cached and fragmented ones.
int64_t memory_reserved(Device device);
int64_t max_memory_reserved(Device device);
/// Both peaks are from now on those since now.
void reset_peak(Device device);

/// A table of the account's state for people: live bytes by category, now and at the moment of the
/// peak; on the CPU and on GPUs what the system says is used, and how much of that is outside the
/// account.
std::string memory_summary(Device device);

/// Every buffer that is held, the largest first, of equal ones the oldest.
std::vector<BufferInfo> memory_snapshot(const Account& account);
std::vector<BufferInfo> memory_snapshot(Device device);

/// "96 KiB (98304 bytes) in 2 buffers:", and a line for each of the first `most`.
std::string describe(std::span<const BufferInfo> buffers, size_t most);

}  // namespace brim::memory
