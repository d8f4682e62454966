// What of an account is still held when the program ends, printed to standard error: tensors in
// globals, or in reference cycles. For a part of a program use `NoGrowth`, which fails instead of
// printing.
//
// `BRIM_REPORT_LEAKS=1` in the environment asks for it for every device that a program uses.
#pragma once

#include <memory>
#include <string>

#include "brim/base/device.h"

namespace brim::memory {

class Account;

/// Prints, after the destructors of all globals that were made since this was called, the bytes
/// that the account of `device` (as it is now) holds, and the largest buffers.
void report_live_at_exit(Device device);
void report_live_at_exit(std::shared_ptr<Account> account);

/// The same where the environment asks for it; the account that it was given.
std::shared_ptr<Account> report_at_exit_if_asked(std::shared_ptr<Account> account);

/// "cpu holds 96 KiB (98304 bytes) in 2 buffers:", and a line for each of the largest.
std::string describe_live(const Account& account);

}  // namespace brim::memory
