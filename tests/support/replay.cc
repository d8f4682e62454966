#include "brim/tests/support/replay.h"

#include "brim/tests/support/compare.h"

namespace brim::testing {

Tensors ReplayObserver::replay(const autograd::OpEvent& event) {
  ledger_.mark();
  ledger_.set_pattern(Ledger::kNumber);
  Tensors again;
  try {
    LaunchObserverScope watch(*this);
    again = event.op.forward(event.inputs, event.context);
  } catch (const std::exception& error) {
    faults_.push_back(fmt::format("replay of {} throws: {}", op_, error.what()));
    again = event.outputs;
  }
  ledger_.set_pattern(Ledger::kNan);
  return again;
}

void ReplayObserver::ran(const autograd::OpEvent& event) {
  ++ops_;
  if (event.phase != autograd::Phase::forward) return;
  op_ = event.op.name();
  if (std::string_view file = event.where.file_name(); file.find("test") == file.npos)
    faults_.push_back(
        fmt::format("{} says that it was called at {}:{}, a path without 'test' in it", op_, file,
                    event.where.line()));
  compare(replay(event), event, "replay");
  check_overwriting(event);
}

void ReplayObserver::compare(const Tensors& again, const autograd::OpEvent& event,
                             const char* how) {
  if (again.size() != event.outputs.size()) {
    faults_.push_back(fmt::format("{} of {} gives {} outputs, not {}", how, op_, again.size(),
                                  event.outputs.size()));
    return;
  }
  for (size_t k = 0; k < again.size(); ++k)
    if (auto difference = bit_difference(again[k], event.outputs[k]); !difference.empty())
      faults_.push_back(
          fmt::format("{} of {} gives another output {}: {}", how, op_, k, difference));
}

void ReplayObserver::check_overwriting(const autograd::OpEvent& event) {
  for (int i : event.op.overwrites()) {
    Tensors inputs = event.inputs;
    Tensor& offered = inputs[static_cast<size_t>(i)];
    offered = clone(offered);
    autograd::ForwardContext context = event.context;
    context.overwrite = i;
    Tensors outputs = event.op.forward(inputs, context);
    compare(outputs, event, "overwriting");
    const Tensor& output = outputs.front();
    const bool fits = output.numel() == offered.numel() && output.dtype() == offered.dtype();
    if ((output.storage() == offered.storage()) != fits)
      faults_.push_back(fmt::format("{} {} the place of input {} of shape {} for an output of {}",
                                    op_, fits ? "does not take" : "takes", i,
                                    to_string(offered.shape()), to_string(output.shape())));
  }
}

void ReplayObserver::launched(const LaunchEvent& event) {
  for (const View& view : event.out)
    if (view.present && view.numel() > 0 && !ledger_.is_fresh(view.data))
      faults_.push_back(fmt::format(
          "replay of {} has a side effect: '{}' writes to a buffer that was there before", op_,
          event.kernel));
}

}  // namespace brim::testing
