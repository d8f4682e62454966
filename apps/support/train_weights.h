// Where the weights of `train` come from and go to: `--init FILE --new-head --save FILE`. The file
// that is saved has all that `infer` needs (nn/model_card.h). In a program of your own call
// `nn::load_weights` and `nn::save_weights` (nn/weights.h).
#pragma once

#include "brim/apps/support/app.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// Declares the flags; `flags` must outlive the parsing.
void add_weight_flags(App& app, TrainFlags& flags);

/// The model of the flags as it is without a file, on the meta device.
std::unique_ptr<nn::Module> usual_model(const TrainFlags& flags, const TrainData& data);

/// Of `--init`, which may be a pruned model: the run's is made like it. Throws what `nn::card_of`
/// throws.
void take_initial_sizes(TrainFlags& flags, const TrainData& data);

/// Before anything that takes long: whether the weights are those of this model, and the file can
/// be written. Throws `FileError`, or `ValueError` for a new head of nothing.
void check_weight_flags(const TrainFlags& flags, const TrainData& data);

/// For who starts from a file of as many but other classes, or the same in another order; "" for
/// all others.
std::string other_classes(const TrainFlags& flags, const TrainData& data);

/// Does nothing without `--init`. Returns what to say of the file, or "".
std::string load_initial_weights(const TrainFlags& flags, nn::Module& model);
/// "the names in x.safetensors begin with 'module.', which is taken off", or "" for no prefix.
std::string said_of_prefix(const std::string& path, const std::string& prefix);

/// Writes what the model has now, averages if they are in its place; nothing without `--save-best`.
void save_best_weights(const TrainFlags& flags, const TrainData& data, nn::Module& model);

/// Writes the weights, the averages where there are any (`ema` may be null), with what images of
/// this data go through; nothing without `--save`.
void save_trained_weights(const TrainFlags& flags, const TrainData& data, nn::Module& model,
                          optim::Ema* ema);

}  // namespace brim::apps
