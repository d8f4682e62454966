// A device and a host of this machine, with an account each, and an engine that moves saved tensors
// between them: for tests of offloading by hand. A training makes its own
// (TrainerOptions::offload).
#pragma once

#include <doctest/doctest.h>

#include <memory>

#include "brim/autograd/offload.h"
#include "brim/tests/support/late_copies.h"

namespace brim::testing {

/// The engine's scope is open. `late`: it copies as late as it may, and notes what breaks the
/// rules.
struct OffloadMachine {
  explicit OffloadMachine(bool late = true, int64_t host_bytes = memory::host_memory())
      : device(memory::capped_host_account("caching")),
        host(memory::capped_host_account("caching", host_bytes)),
        on_device(device),
        engine(Device::cpu(), host, late ? std::make_unique<LateCopies>(notes) : nullptr),
        moving(&engine) {}

  int64_t live() const { return device->stats().live; }
  int64_t host_live() const { return host->stats().live; }
  void check_rules() const {
    for (int way : {0, 1}) {
      CHECK(notes.under_way[way] == 0);
      CHECK(notes.most_under_way[way] <= 2);
    }
    CHECK(notes.changed == 0);
    CHECK(notes.unknown == 0);
  }

  CopyNotes notes;
  std::shared_ptr<memory::Account> device, host;
  memory::AccountScope on_device;
  autograd::Offload engine;
  autograd::OffloadScope moving;
};

}  // namespace brim::testing
