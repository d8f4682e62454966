// The flags of `prune` beside those of `train`, which its finetuning takes.
#pragma once

#include <string>
#include <vector>

#include "brim/apps/support/app.h"
#include "brim/apps/support/prune_goal.h"
#include "brim/apps/support/train_flags.h"
#include "brim/shrink/prune.h"

namespace brim::apps {

struct PruneFlags {
  TrainFlags train;
  std::string weights, criterion = "l2";
  std::string to;  ///< by default flops=0.5, or where blocks are removed "", all channels
  int64_t remove_blocks = 0;
  bool per_layer = false;
  int64_t multiple = 8;
  double least = 0.1;
  std::vector<std::string> exclude;
  int64_t gradient_batches = 10;  ///< of the criterion taylor
  int64_t finetune_epochs = 0;
  std::string sensitivity;  ///< a page to write; "" for none
  int64_t sensitivity_images = 1000;
  PruneGoal goal{.amount = 1};  ///< of `to`

  shrink::PruneOptions options() const;
};

/// Declares the flags; `flags` must outlive the parsing.
void add_flags(App& app, PruneFlags& flags);

/// Takes `to` apart and fills in what `train` leaves open; the model is that of the file. Throws
/// `ValueError` naming a bad value, `FileError` for the file.
void check_flags(PruneFlags& flags);

}  // namespace brim::apps
