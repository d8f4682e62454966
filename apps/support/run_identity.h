// What a run of `train` is, as far as its plan and its checkpoints must know it again: one list of
// settings for both, so that a new flag has one place. A plan is for the bytes of a run, which
// seeds and rates do not change; a checkpoint is for its numbers, which micro-batches and threads
// change by rounding alone. In a program of your own write down what its trainings differ in
// (`memory::PlanOptions`, `CheckpointOptions`).
#pragma once

#include <set>
#include <string>

#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// The setting that says how many updates a training takes in all.
inline constexpr const char* kStepsSetting = "steps";
/// And the one that says where its data lie: files are known by their names, wherever that is.
inline constexpr const char* kDataSetting = "data";

/// The question that a plan of the run answers; `rehearsal` is of the same flags and data.
std::string bytes_identity(const TrainFlags& flags, const TrainData& data,
                           const RehearsalOptions& rehearsal);

/// What the numbers of the run follow from, by name.
io::Metadata numbers_identity(const TrainFlags& flags, const TrainData& data);

/// One of its names, for data of files.
inline constexpr const char* kListOfClasses = "list of classes";

/// The names in it that tell the classes and the images of files, which a checkpoint of before they
/// were written down lacks; of contents only those that were asked for are known.
std::set<std::string> identity_of_files();

/// Whether both know the images that they train on by names.
bool know_files(const io::Metadata& one, const io::Metadata& other);

}  // namespace brim::apps
