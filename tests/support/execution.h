// One run of a sample, forward and backward, on inputs of any dtype, layout and device; alone, or
// under an account of its own that writes down what happens to its bytes. Internal to checker.cc
// and differences.cc: tests call `check_op` (op_spec.h). A `Sandbox` replaces the device's account
// for the whole program, so have one at a time.
#pragma once

#include <vector>

#include "brim/memory/account.h"
#include "brim/tests/support/ledger.h"
#include "brim/tests/support/op_spec.h"

namespace brim::testing {

struct Execution {
  Tensors outputs;  ///< unknown to the tape
  Tensors weights;  ///< the gradient that each output got; undefined where it wants none
  Tensors grads;    ///< of each input; undefined where none was asked for or none arrived
};

/// Does input i get a gradient?
bool wants_grad(const OpSample& sample, size_t i);

/// The gradient that output `number` gets: random in [-1, 1), of its shape, dtype and device.
Tensor weights_for(const Tensor& output, size_t number);

/// Runs forward and, for differentiable samples, backward from `weights`, or from `weights_for`
/// each output where that is empty.
Execution execute(const OpSample& sample, const Tensors& inputs, const Tensors& weights = {});

/// What an execution under an account of its own leaves behind.
struct Isolated {
  Execution execution;  ///< copies, on the default account
  std::vector<LedgerEntry> ledger;
  int64_t peak_live = 0;
  int64_t held = 0;  ///< bytes that did not come back when everything was dropped
};

/// An account with a ledger, in force for the whole program until `leave`.
class Sandbox {
 public:
  explicit Sandbox(Device device, int pattern = Ledger::kNan);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  void leave();
  memory::Account& account() { return *account_; }
  Ledger& ledger() { return ledger_; }

 private:
  std::shared_ptr<memory::Account> account_;
  Ledger ledger_;
  std::unique_ptr<memory::AccountScope> scope_;
};

Isolated execute_isolated(const OpSample& sample, const Tensors& inputs, Device device,
                          int pattern = Ledger::kNan);

}  // namespace brim::testing
