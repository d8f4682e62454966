// Ops that write their output over an input which nobody can read any more: of an elementwise op
// one buffer lives where there were two. The tape allows it where the input is saved for no
// backward function. A scope switches it on, since it costs those who look at an op's inputs after
// the op (`OpEvent::overwritten`); a training opens one (`TrainerOptions::in_place`).
//
// The answer depends on handles alone, never on addresses or values, so a traced step gives the
// same one; and what is computed is the same, to the bit.
#pragma once

#include "brim/autograd/op.h"

namespace brim::autograd {

/// Is an `InPlaceScope` active on this thread that allows it? Without one: no.
bool in_place_enabled();

/// Allows or forbids overwriting for this thread until the scope ends.
class InPlaceScope {
 public:
  explicit InPlaceScope(bool enabled);
  ~InPlaceScope();
  InPlaceScope(const InPlaceScope&) = delete;
  InPlaceScope& operator=(const InPlaceScope&) = delete;

 private:
  bool before_;
};

/// Of `op.overwrites()` the input with the most elements that nobody but this call can read: no
/// other handle, view or saved tensor, not saved by this call, filling its storage, and no leaf
/// that wants a gradient. Only of category activations: others are counted as what they are. Under
/// a policy (save_policy.h) only what its producer could make again. -1 where there is none.
int input_to_overwrite(const Op& op, const Tensors& inputs, const Saves& saves);

/// The same for a call that runs again (rebuild.h), whose inputs were made for it alone where
/// nobody else has a handle.
int input_to_overwrite_again(const Op& op, const Tensors& inputs);

/// The input that `context` offered, where forward took it; else -1.
int input_overwritten(const ForwardContext& context, const Tensors& inputs, const Tensors& outputs);

}  // namespace brim::autograd
