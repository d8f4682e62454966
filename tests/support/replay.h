// Replays every op of a run alone, right after it ran: recomputation in miniature, and the proof
// that `Op::forward` is a pure function, as autograd/op.h says. Part of `check_op` (op_spec.h).
// Backward is counted, not replayed.
#pragma once

#include <string>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/core/launch.h"
#include "brim/tests/support/ledger.h"

namespace brim::testing {

/// While it lives, calls `forward` of each op of this thread a second time, with the same inputs
/// and context and another pattern in fresh memory, and compares all outputs bit for bit, those
/// for backward included. Each op must name a line of a file with "test" in its path as its
/// caller's. A replay must write to no buffer that was there before it. Needs the ledger of the
/// account in force. Of what the op says that it `overwrites`, each input is offered to it in turn:
/// it must take it where the first output has as many elements of its dtype, with the same bits.
class ReplayObserver final : public autograd::OpObserver, public LaunchObserver {
 public:
  explicit ReplayObserver(Ledger& ledger) : ledger_(ledger) {}

  void ran(const autograd::OpEvent& event) override;
  void launched(const LaunchEvent& event) override;

  int ops() const { return ops_; }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  Tensors replay(const autograd::OpEvent& event);
  void compare(const Tensors& again, const autograd::OpEvent& event, const char* how);
  void check_overwriting(const autograd::OpEvent& event);

  Ledger& ledger_;
  int ops_ = 0;
  std::string op_;
  std::vector<std::string> faults_;
};

}  // namespace brim::testing
