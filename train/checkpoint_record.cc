#include "brim/train/checkpoint_record.h"

#include <charconv>
#include <cmath>
#include <set>

#include "brim/base/error.h"

namespace brim {
namespace {

constexpr std::string_view kVersion = "checkpoint.version", kChecksum = "checkpoint.checksum",
                           kPlan = "checkpoint.plan";
constexpr std::string_view kProgress = "progress.", kIdentity = "identity.", kNotes = "notes.";
constexpr size_t kLongestShown = 60;  // of a value that is refused

/// Calls `visit` with name and place of each number. The one list that both directions share.
template <class Record, class Visit>
void for_each_number(Record& record, const Visit& visit) {
  visit("updates", record.updates);
  visit("optimizer_steps", record.optimizer_steps);
  visit("ema_updates", record.ema_updates);
  visit("loss_scale", record.loss_scale);
  visit("finite_in_a_row", record.finite_in_a_row);
  visit("skipped_updates", record.skipped_updates);
  visit("epoch", record.progress.epoch);
  visit("batch", record.progress.batch);
  visit("loss_sum", record.progress.loss_sum);
  visit("images", record.progress.images);
  visit("seconds", record.progress.seconds);
  visit("best", record.progress.best);
  visit("epochs_since_best", record.progress.epochs_since_best);
  visit("accuracy", record.progress.accuracy);
  visit("top5", record.progress.top5);
}

bool in_range(uint64_t) { return true; }
bool in_range(int64_t value) { return value >= 0; }
bool in_range(double value) { return std::isfinite(value); }

class Writer {
 public:
  explicit Writer(io::Metadata& metadata) : metadata_(metadata) {}

  template <class T>
  void operator()(const char* name, const T& value) const {
    expect<ValueError>(in_range(value), kCheckpointsTag, "{} cannot be {}", name, value);
    // A double in the fewest digits that give it back.
    metadata_[std::string(kProgress) + name] = fmt::format("{}", value);
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) const {
    if (value) (*this)(name, *value);
  }

 private:
  io::Metadata& metadata_;
};

/// The entries of one file, which must all be asked for.
class Reader {
 public:
  Reader(const io::Metadata& metadata, const std::string& path) : path_(path) {
    for (const auto& [name, value] : metadata) left_.emplace(name, &value);
  }

  template <class T>
  void operator()(const char* name, T& value) {
    value = number<T>(std::string(kProgress) + name);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) {
    if (left_.contains(std::string(kProgress) + name)) (*this)(name, value.emplace());
  }

  /// All of the text, no sign but '-', no blanks.
  template <class T>
  T number(const std::string& name) {
    const std::string& text = take(name);
    T value{};
    const char* end = text.data() + text.size();
    auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || at != end || !in_range(value))
      refuse("expected a number in '{}', got {:?}", name,
             std::string_view(text).substr(0, kLongestShown));
    return value;
  }

  std::string text_if_any(std::string_view name) {
    return left_.contains(name) ? take(std::string(name)) : "";
  }

  io::Metadata strings(std::string_view prefix) {
    io::Metadata strings;
    for (auto at = left_.lower_bound(prefix); at != left_.end() && at->first.starts_with(prefix);
         at = left_.erase(at))
      strings.emplace(at->first.substr(prefix.size()), *at->second);
    return strings;
  }

  void require_scaling(const CheckpointRecord& record) const {
    const bool any = record.loss_scale || record.finite_in_a_row || record.skipped_updates;
    const bool all = record.loss_scale && record.finite_in_a_row && record.skipped_updates;
    if (any != all) refuse("the state of its loss scaler is not complete");
    int64_t attempts = 0;
    if (all && __builtin_add_overflow(record.updates, *record.skipped_updates, &attempts))
      refuse("'{}skipped_updates' is too large", kProgress);
  }

  void require_empty() const {
    if (!left_.empty()) refuse("'{}' is not known", left_.begin()->first);
  }

 private:
  const std::string& take(const std::string& name) {
    auto found = left_.find(name);
    if (found == left_.end()) refuse("there is no '{}'", name);
    const std::string& text = *found->second;
    left_.erase(found);
    return text;
  }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    raise<FileError>(kCheckpointsTag, "'{}' is not a whole checkpoint: {}", path_,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  std::map<std::string, const std::string*, std::less<>> left_;
  const std::string& path_;
};

}  // namespace

io::Metadata to_metadata(const CheckpointRecord& record) {
  io::Metadata metadata{{std::string(kVersion), fmt::format("{}", kCheckpointVersion)},
                        {std::string(kChecksum), fmt::format("{}", record.checksum)}};
  for_each_number(record, Writer(metadata));
  if (!record.plan.empty()) metadata[std::string(kPlan)] = record.plan;
  for (const auto& [name, value] : record.identity) metadata[std::string(kIdentity) + name] = value;
  for (const auto& [name, value] : record.notes) metadata[std::string(kNotes) + name] = value;
  return metadata;
}

int64_t checkpoint_version(const io::Metadata& metadata, const std::string& path) {
  return Reader(metadata, path).number<int64_t>(std::string(kVersion));
}

CheckpointRecord record_of(const io::Metadata& metadata, const std::string& path) {
  Reader reader(metadata, path);
  CheckpointRecord record;
  reader.number<int64_t>(std::string(kVersion));
  record.checksum = reader.number<uint64_t>(std::string(kChecksum));
  for_each_number(record, [&](const char* name, auto& value) { reader(name, value); });
  record.plan = reader.text_if_any(kPlan);
  record.identity = reader.strings(kIdentity);
  record.notes = reader.strings(kNotes);
  reader.require_empty();
  reader.require_scaling(record);
  return record;
}

io::Checksum sum_of(const io::Metadata& metadata) {
  io::Checksum sum;
  for (const auto& [name, value] : metadata) {
    if (name == kChecksum || name == kPlan) continue;
    sum.add(name);
    sum.add(value);
  }
  return sum;
}

}  // namespace brim
