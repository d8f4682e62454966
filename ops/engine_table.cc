#include "brim/ops/engine_table.h"

namespace brim {

void EngineTable::offer(const EngineChoices& choices) {
  std::lock_guard lock(mutex_);
  offered_.insert(choices.begin(), choices.end());
}

std::optional<EngineChoice> EngineTable::offered(const std::string& convolution) const {
  std::lock_guard lock(mutex_);
  auto found = offered_.find(convolution);
  return found == offered_.end() ? std::nullopt : std::optional(found->second);
}

void EngineTable::choose(const std::string& convolution, const EngineChoice& choice, bool lasts) {
  std::lock_guard lock(mutex_);
  chosen_[convolution] = choice;
  if (lasts) lasting_[convolution] = choice;
}

EngineChoices EngineTable::chosen() const {
  std::lock_guard lock(mutex_);
  return chosen_;
}

EngineChoices EngineTable::lasting() const {
  std::lock_guard lock(mutex_);
  return lasting_;
}

EngineTable& engine_table(Device gpu) {
  static std::mutex mutex;
  static auto* tables = new std::map<int, EngineTable>;
  std::lock_guard lock(mutex);
  return (*tables)[gpu.index];
}

}  // namespace brim
