#include "brim/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "brim/base/nearest.h"
#include "brim/base/utf8.h"
#include "brim/core/transfer.h"
#include "brim/io/atomic_file.h"
#include "brim/io/checksum.h"
#include "brim/io/tensor_bytes.h"
#include "brim/memory/staging_scope.h"
#include "brim/shrink/channel_cut.h"
#include "brim/train/checkpoint_identity.h"
#include "brim/train/checkpoint_record.h"

namespace brim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTag = kCheckpointsTag;
constexpr std::string_view kStart = "step-", kEnd = ".safetensors";
constexpr size_t kNamesCompared = 5000;  // of a file that may have many

// ---- The folder.

/// Digits enough that names sort as their updates do.
std::string file_name(int64_t updates) { return fmt::format("{}{:08d}{}", kStart, updates, kEnd); }

/// The updates of a checkpoint of that name; nothing for other names.
std::optional<int64_t> updates_of(std::string_view name) {
  if (name.size() < kStart.size() + kEnd.size()) return {};
  std::string_view digits = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
  int64_t updates = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), updates);
  if (updates < 0 || file_name(updates) != name) return {};
  return updates;
}

/// Names of the regular files in a folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;  // meanwhile
    if (at->is_regular_file(gone)) names.push_back(at->path().filename().string());
  }
  expect<FileError>(!error, kTag, "cannot read the folder '{}': {}", folder, error.message());
  return names;
}

void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  expect<FileError>(!error, kTag, "cannot remove '{}': {}", path, error.message());
}

std::string path_in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

// ---- The tensors.

using ByName = std::map<std::string, Tensor, std::less<>>;

/// All that are saved, under their names in the file.
ByName tensors_of(const TrainingState& state) {
  ByName tensors;
  state.model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    tensors.emplace("model." + name, *slot.tensor);
  });
  for (const nn::NamedTensor& named : state.optimizer.named_state())
    tensors.emplace("optimizer." + named.name, named.tensor);
  if (state.ema != nullptr)  // these are called "ema." already
    for (const nn::NamedTensor& named : state.ema->named_state())
      tensors.emplace(named.name, named.tensor);
  return tensors;
}

void require_no_scope(const TrainingState& state) {
  expect<ValueError>(state.ema == nullptr || !state.ema->in_use(), kTag,
                     "the averages are in the model's place: end the EmaScope first");
}

void add(io::Checksum& sum, const std::string& name, const Tensor& tensor) {
  sum.add(name);
  sum.add(to_string(tensor.dtype()));
  sum.add(to_string(tensor.shape()));
  sum.add(io::bytes_of(contiguous(staged_on_host(tensor))));
}

void require_checksum(const io::SafetensorsFile& file, uint64_t expected) {
  memory::StagingScope staging;
  io::Checksum sum = sum_of(file.metadata());
  for (const io::TensorInfo& info : file.tensors()) add(sum, info.name, file.read(info.name));
  expect<FileError>(sum.value() == expected, kTag,
                    "'{}' is damaged: its checksum is {}, but it was written with {}", file.path(),
                    sum.value(), expected);
}

// ---- Whether its tensors are those of this training.

std::vector<std::string> names_of(const io::SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const io::TensorInfo& info : file.tensors()) names.push_back(info.name);
  return names;
}

std::vector<std::string> names_of(const ByName& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// The first name of `names` that is not among `others`, with the nearest there; "" for none.
std::string first_beyond(const std::vector<std::string>& names,
                         const std::vector<std::string>& others) {
  for (const std::string& name : names)
    if (!std::ranges::binary_search(others, name))
      return fmt::format(
          "'{}'{}", name,
          did_you_mean(name, std::span(others).first(std::min(others.size(), kNamesCompared))));
  return "";
}

bool is_within(const Shape& part, const Shape& whole) {
  if (part.size() != whole.size()) return false;
  for (int axis = 0; axis < part.size(); ++axis)
    if (part[axis] < 1 || part[axis] > whole[axis]) return false;
  return true;
}

void require_tensors(const io::SafetensorsFile& file, const ByName& wanted, bool may_shrink) {
  std::vector<std::string> there = names_of(file), here = names_of(wanted);
  std::string missing = first_beyond(here, there), unexpected = first_beyond(there, here);
  expect<FileError>(missing.empty(), kTag, "'{}' is of another training: it has no {}", file.path(),
                    missing);
  expect<FileError>(unexpected.empty(), kTag, "'{}' is of another training: this one has no {}",
                    file.path(), unexpected);
  for (const auto& [name, tensor] : wanted) {
    const io::TensorInfo& info = file.info(name);
    const bool fits =
        info.shape == tensor.shape() || (may_shrink && is_within(info.shape, tensor.shape()));
    expect<FileError>(fits && info.dtype == tensor.dtype(), kTag,
                      "'{}' is of another training: its '{}' is {} of {}, but {} of {} here",
                      file.path(), name, info.dtype, info.shape, tensor.dtype(), tensor.shape());
  }
}

// "conv.weight" of "optimizer.momentum.conv.weight" and "ema.conv.weight"; "" for another name.
std::string owner_of(const std::string& name) {
  const size_t dots = name.starts_with("optimizer.") ? 2 : name.starts_with("ema.") ? 1 : 0;
  size_t at = 0;
  for (size_t i = 0; i < dots; ++i) at = name.find('.', at) + 1;
  return dots == 0 ? "" : "model." + name.substr(at);
}

// State and averages are as large as the parameter that they are of, also where that is smaller.
void require_same_as_owners(const io::SafetensorsFile& file, const ByName& wanted) {
  for (const auto& [name, tensor] : wanted) {
    auto owner = wanted.find(owner_of(name));
    if (owner == wanted.end() || owner->second.shape() != tensor.shape()) continue;
    const Shape &is = file.info(name).shape, &of_owner = file.info(owner->first).shape;
    expect<FileError>(is == of_owner, kTag, "'{}': '{}' is {}, but '{}' is {}", file.path(), name,
                      is, owner->first, of_owner);
  }
}

// All handles to a tensor show the smaller one, which has no values yet.
void shrink_to(const io::SafetensorsFile& file, const ByName& tensors) {
  std::vector<std::pair<Tensor, Tensor>> changes;
  for (const auto& [name, tensor] : tensors) {
    const Shape& shape = file.info(name).shape;
    if (shape == tensor.shape()) continue;
    memory::CategoryScope category(tensor.storage()->category());
    changes.emplace_back(tensor,
                         empty(shape, {.dtype = tensor.dtype(), .device = tensor.device()}));
  }
  for (const auto& [whole, part] : changes) shrink::exchange(whole, part);
}

void require_averages(const CheckpointRecord& record, const TrainingState& state,
                      const std::string& path) {
  bool here = state.ema != nullptr, there = record.ema_updates.has_value();
  expect<FileError>(here == there, kTag, "'{}' is of another training: it has {}", path,
                    there ? "averages" : "no averages");
}

void require_scaler(const CheckpointRecord& record, const TrainingState& state,
                    const std::string& path) {
  const optim::LossScaler* scaler = state.step.scaler();
  const bool there = record.loss_scale.has_value();
  expect<FileError>((scaler != nullptr) == there, kTag, "'{}' is of another training: it has {}",
                    path, there ? "a loss scale" : "no loss scale");
  if (!there) return;
  try {
    optim::LossScaler(*scaler).set_state({*record.loss_scale, *record.finite_in_a_row});
  } catch (const ValueError& error) {
    raise<FileError>(kTag, "'{}' is of another training, whose {}", path, error.what());
  }
}

// ---- The newest.

/// A file whose bytes are those that were written.
struct Whole {
  explicit Whole(const std::string& path) : file(path) {
    version = checkpoint_version(file.metadata(), path);
    if (version > kCheckpointVersion) return;  // who knows how it is read
    record = record_of(file.metadata(), path);
    require_checksum(file, record.checksum);
  }
  Checkpoint described() const {
    return {file.path(),     record.updates,  record.skipped_updates.value_or(0),
            record.progress, record.identity, record.notes,
            record.plan};
  }

  io::SafetensorsFile file;
  int64_t version = 0;
  CheckpointRecord record;
};

struct Found {
  std::unique_ptr<Whole> newest;  // null for none
  std::vector<std::string> passed_over;
  std::set<std::string> damaged;  // their paths
};

/// Paths of checkpoints, the newest first.
std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::map<int64_t, std::string, std::greater<>> by_updates;
  for (const std::string& name : names_in(folder))
    if (std::optional<int64_t> updates = updates_of(name))
      by_updates.emplace(*updates, path_in(folder, name));
  std::vector<std::string> paths;
  for (auto& [updates, path] : by_updates) paths.push_back(std::move(path));
  return paths;
}

Found find_newest(const std::string& folder) {
  Found found;
  for (const std::string& path : checkpoints_in(folder)) {
    try {
      found.newest = std::make_unique<Whole>(path);
    } catch (const FileError& error) {
      found.passed_over.emplace_back(error.what());
      found.damaged.insert(path);
      continue;
    }
    expect<FileError>(
        found.newest->version <= kCheckpointVersion, kTag,
        "'{}' is of version {} of the format, later than {}: a newer program wrote it", path,
        found.newest->version, kCheckpointVersion);
    break;
  }
  return found;
}

Found find_newest(const std::string& folder, const CheckpointOptions& options) {
  Found found = find_newest(folder);
  if (found.newest) require_same_identity(found.newest->described(), options);
  return found;
}

NewestCheckpoint described(Found found) {
  NewestCheckpoint result{.checkpoint = {}, .passed_over = std::move(found.passed_over)};
  if (found.newest) result.checkpoint = found.newest->described();
  return result;
}

}  // namespace

NewestCheckpoint newest_checkpoint_in(const std::string& folder) {
  std::error_code error;
  if (fs::status(folder, error).type() == fs::file_type::not_found) return {};
  return described(find_newest(folder));
}

std::shared_ptr<io::FolderLock> lock_checkpoints(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  expect<FileError>(!error, kTag, "cannot make the folder '{}': {}", folder, error.message());
  return std::make_shared<io::FolderLock>(folder, kTag);
}

Checkpoints::Checkpoints(std::string folder, CheckpointOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  expect<ValueError>(options_.keep >= 1, kTag, "expected to keep at least 1 file, got {}",
                     options_.keep);
  for (auto& [name, value] : options_.identity) value = escaped_utf8(value);  // as it is read
  io::check_metadata(to_metadata({.identity = options_.identity}));
  if (options_.lock == nullptr) options_.lock = lock_checkpoints(folder_);
  for (const std::string& name : names_in(folder_))
    if (updates_of(io::name_after_commit(name))) remove_file(path_in(folder_, name));
  io::check_writable(path_in(folder_, file_name(0)), kTag);
}

void Checkpoints::set_notes(io::Metadata notes) {
  io::check_metadata(to_metadata({.identity = options_.identity, .notes = notes}));
  notes_ = std::move(notes);
}

std::vector<std::string> Checkpoints::files() const { return checkpoints_in(folder_); }

NewestCheckpoint Checkpoints::newest() const {
  Found found = find_newest(folder_, options_);
  damaged_.merge(found.damaged);
  return described(std::move(found));
}

NewestCheckpoint Checkpoints::load_newest(const TrainingState& state) const {
  require_no_scope(state);
  const ByName tensors = tensors_of(state);
  Found found = find_newest(folder_, options_);
  damaged_.merge(found.damaged);
  if (!found.newest) return described(std::move(found));
  const auto& [file, version, record] = *found.newest;
  require_averages(record, state, file.path());
  require_scaler(record, state, file.path());
  require_tensors(file, tensors, state.may_shrink);
  if (state.may_shrink) require_same_as_owners(file, tensors);
  shrink_to(file, tensors);
  state.step.renew_shadows();
  {
    memory::StagingScope staging;
    for (const auto& [name, tensor] : tensors) file.read_into(name, tensor);
  }
  state.optimizer.set_steps(record.optimizer_steps);
  state.step.set_updates(record.updates, record.skipped_updates.value_or(0));
  if (optim::LossScaler* scaler = state.step.scaler())
    scaler->set_state({*record.loss_scale, *record.finite_in_a_row});
  if (state.ema != nullptr) state.ema->set_updates(*record.ema_updates);
  return described(std::move(found));
}

std::string Checkpoints::save(const TrainingState& state, const TrainingProgress& progress,
                              const std::string& plan) const {
  require_no_scope(state);
  state.model.require_values();
  CheckpointRecord record{.identity = options_.identity,
                          .notes = notes_,
                          .progress = progress,
                          .updates = state.step.updates(),
                          .optimizer_steps = state.optimizer.steps(),
                          .plan = plan};
  if (state.ema != nullptr) record.ema_updates = state.ema->updates();
  if (const optim::LossScaler* scaler = state.step.scaler()) {
    record.loss_scale = scaler->state().scale;
    record.finite_in_a_row = scaler->state().finite_in_a_row;
    record.skipped_updates = state.step.skipped();
  }
  memory::StagingScope staging;
  io::Checksum sum = sum_of(to_metadata(record));
  std::vector<io::NamedBytes> entries;
  for (const auto& [name, tensor] : tensors_of(state)) {
    add(sum, name, tensor);
    entries.push_back({name, tensor});
  }
  record.checksum = sum.value();
  std::string path = path_in(folder_, file_name(state.step.attempts()));
  io::write_safetensors(path, entries, to_metadata(record));
  remove_beyond_keep(path);
  return path;
}

void Checkpoints::remove_beyond_keep(const std::string& written) const {
  damaged_.erase(written);
  std::vector<std::string> paths = files();
  std::erase_if(paths,
                [&](const auto& path) { return path == written || damaged_.contains(path); });
  for (; static_cast<int64_t>(paths.size()) >= options_.keep; paths.pop_back())
    remove_file(paths.back());
}

}  // namespace brim
