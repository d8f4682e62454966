#include "brim/train/non_finite.h"

#include <fmt/core.h>

#include <algorithm>

#include "brim/core/non_finite.h"

namespace brim {
namespace {

// An input that was overwritten came out of an op before this one, the first to be reported.
bool has_bad_input(const autograd::OpEvent& event) {
  for (size_t i = 0; i < event.inputs.size(); ++i)
    if (static_cast<int>(i) != event.overwritten && has_non_finite(event.inputs[i])) return true;
  return false;
}

bool has_bad_output(const autograd::OpEvent& event) {
  return std::ranges::any_of(event.outputs, has_non_finite) ||
         (event.factors != nullptr && has_non_finite(factored_gradient(event)));
}

}  // namespace

void NonFiniteFinder::ran(const autograd::OpEvent& event) {
  if (event.phase == autograd::Phase::recompute) return;  // forward had the same
  if (found_ || !has_bad_output(event)) return;
  bool forward = event.phase == autograd::Phase::forward;
  bool bad_inputs = has_bad_input(event);
  std::string_view file = event.where.file_name();
  found_ = {.module = event.module, .op = event.op.name(), .phase = event.phase};
  found_->text = fmt::format("first seen in the {} pass of '{}' in module {} ({}:{})",
                             forward ? "forward" : "backward", event.op.name(),
                             event.module.empty() ? "(the root)" : event.module,
                             file.substr(file.rfind('/') + 1), event.where.line());
  // Ops take the gradients that they are given: of those nothing is left to see.
  if (forward)
    found_->text +=
        bad_inputs ? ": its inputs already were not finite" : ": its inputs were finite";
}

}  // namespace brim
