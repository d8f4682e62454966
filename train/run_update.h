// One update in parts, as `Trainer`, a `Training` within its plan and rehearsals run it: all ask
// for the same bytes in the same order, so that what was rehearsed is what is held.
#pragma once

#include <vector>

#include "brim/train/parts.h"
#include "brim/train/train_step.h"

namespace brim {

/// `loss_of(part)` is what a micro-step runs, `options_of(part)` how; `done(part, loss)` is told
/// the loss of each. One part is a step in one go. With a scaler, parts after a lost one are left
/// out.
template <class LossOf, class OptionsOf, class Done>
void run_update(TrainStep& step, double rate, const std::vector<Part>& parts, const LossOf& loss_of,
                const OptionsOf& options_of, const Done& done) {
  if (parts.size() == 1) {
    done(parts[0], step.run(rate, loss_of(parts[0]), options_of(parts[0])));
    return;
  }
  step.begin();
  for (const Part& part : parts)
    if (!step.is_lost()) done(part, step.micro_step(loss_of(part), options_of(part)));
  step.prepare(rate);
  step.commit();
}

}  // namespace brim
