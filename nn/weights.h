// The weights of a model to and from safetensors files, in PyTorch's names and layouts: a file that
// is written here loads there with `load_state_dict(strict=True)`, and the other way round. For a
// model that is known by the file alone use nn/models/load_model.h; for tensors that are no model's
// io/safetensors.h. What an optimizer holds is not in these files.
//
// What has four axes has its channels last here and second there: [out,R,S,in] is stored as
// [out,in,R,S]. All else is stored as it is. PyTorch's batch norms also count their batches, in
// `num_batches_tracked`, which nothing here uses: it is written as 0, and may be missing or there
// when a file is read. Wrappers put `module.`, `_orig_mod.` or `model.` in front of all names of a
// model, one or several of them: whatever all names of a file begin with is taken off where the
// model has none of them as they are.
#pragma once

#include <string>
#include <vector>

#include "brim/io/safetensors.h"
#include "brim/nn/model_card.h"
#include "brim/nn/module.h"

namespace brim::nn {

struct LoadOptions {
  /// Every parameter and buffer is in the file, and nothing else is but parts that the model is
  /// known to leave out. Otherwise those that both have are loaded.
  bool strict = true;
  /// The model's classifier (`classifier_head`) keeps the values that it has, whatever the file
  /// has for it: for fine-tuning on other classes.
  bool new_head = false;
};

/// Names that only one of the two has; the first two are empty after a strict load. Those of the
/// file are without its prefix.
struct LoadReport {
  std::vector<std::string> missing;     ///< of the model, not in the file
  std::vector<std::string> unexpected;  ///< in the file, not of the model
  /// In the file, and of a part that the model leaves out (`Module::skipped_in_files`).
  std::vector<std::string> skipped;
  std::string prefix;  ///< what was taken off the file's names, "module." say; "" for nothing
};

/// What `load_weights` takes off the names of this file for this model: the shortest run of whole
/// parts ("module.", "module.model.") that all of them begin with and without which the model has
/// one of them; "" where it has one already, or never.
std::string name_prefix(const Module& module, const io::SafetensorsFile& file);

/// Writes parameters and buffers, in the model's dtype, replacing what is at `path` only when the
/// file is whole. Throws `ValueError` while a parameter has no values, for a card that makes no
/// sense or a model whose batch norms are folded (nn/fold.h), `FileError` where the file cannot be
/// written. Takes host memory for one tensor at a time, which is not charged to the account in
/// force.
void save_weights(Module& module, const std::string& path, const ModelCard& card = {});

/// Whether `load_weights` would succeed, short of errors of the disk; the module may be on the meta
/// device. Throws `FileError` listing the first names that are missing or unexpected with the
/// nearest ones on the other side, or the first tensor of another shape (both in the file's layout)
/// or of a dtype that is not floating where the model's is.
LoadReport check_weights(Module& module, const io::SafetensorsFile& file,
                         const LoadOptions& options = {});

/// Sets parameters and buffers from a file, converting to the model's dtype. Throws what
/// `check_weights` throws, before any value is changed. Where the disk fails, someone shortens the
/// file while it is read, or a tensor has NaN or infinities (in the file, or because a number is
/// beyond the model's dtype), the `FileError` leaves the tensors read so far with new values. Takes
/// host memory for one tensor at a time, which is not charged to the account in force.
LoadReport load_weights(Module& module, const io::SafetensorsFile& file,
                        const LoadOptions& options = {});
LoadReport load_weights(Module& module, const std::string& path, const LoadOptions& options = {});

/// A view of the same elements in the order of axes that files have.
Tensor in_file_layout(const Tensor& tensor);

/// The name of the last `Linear` in the order of registration, which gives the classes of all
/// bundled classifiers: "fc", "classifier.1". Throws `ValueError` where there is none.
std::string classifier_head(Module& module);

}  // namespace brim::nn
