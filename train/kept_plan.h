// The memory plan of a training as its checkpoints keep it: offsets and micro-batch that were in
// force, and the memory that they were made for, so that a training which goes on need not be
// planned anew. `Trainer` writes and reads it by itself; a loop of your own hands the text to
// `Checkpoints::save` and finds it in `Checkpoint::plan`. For a plan in a file of its own use
// memory/plan/plan_json.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "brim/memory/plan/plan.h"

namespace brim {

struct KeptPlan {
  std::shared_ptr<const memory::Plan> plan = nullptr;
  int64_t micro_batch = 0;  ///< images on the device at once; from 1
  int64_t capacity = 0;     ///< bytes that the device had for it; from 1
};

/// With a checksum of all. Throws `ValueError` as `memory::to_json` does.
std::string to_text(const KeptPlan& kept);

/// The question that a plan for micro-batches of so many images answers (`memory::Plan::identity`).
using PlanQuestion = std::function<std::string(int64_t micro_batch)>;

/// What is in `text`, for a device with `capacity` bytes. Throws `FileError` with the reason where
/// it is damaged, was made for more or fewer bytes, or answers another question than `question`
/// asks for its micro-batch.
KeptPlan kept_plan_from(std::string_view text, int64_t capacity, const PlanQuestion& question);

}  // namespace brim
