// Host memory of its own for what passes through on its way to a file or from one: while the scope
// lives, tensors that are made on the CPU are not charged to the account in force, so that its
// peaks do not depend on whether values came from a file. Not for what stays, nor for training.
#pragma once

#include "brim/memory/account.h"

namespace brim::memory {

class StagingScope {
  AccountScope scope_{capped_host_account("direct")};
};

}  // namespace brim::memory
