#include "brim/train/checkpoint_identity.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "brim/base/error.h"
#include "brim/train/checkpoint_record.h"

namespace brim {
namespace {

constexpr size_t kLongestShown = 200;  // of a setting in a message

const std::string* value_of(const io::Metadata& settings, const std::string& name) {
  auto found = settings.find(name);
  return found == settings.end() ? nullptr : &found->second;
}

/// From byte `from` on, which a long value differs near.
std::string shown(const std::string* value, size_t from) {
  if (value == nullptr) return "not set";
  return fmt::format("{}{:?}", from > 0 ? "..." : "",
                     std::string_view(*value).substr(std::min(from, value->size()), kLongestShown));
}

/// Where to begin to show two values, so that what differs is seen.
size_t shown_from(const std::string* was, const std::string* is) {
  if (was == nullptr || is == nullptr) return 0;
  const auto same = static_cast<size_t>(std::ranges::mismatch(*was, *is).in1 - was->begin());
  return same < kLongestShown / 2 ? 0 : same - kLongestShown / 4;
}

}  // namespace

void require_same_identity(const Checkpoint& found, const CheckpointOptions& here) {
  const io::Metadata& there = found.identity;
  io::Metadata both = there;
  both.insert(here.identity.begin(), here.identity.end());
  for (const auto& [name, value] : both) {
    const std::string *was = value_of(there, name), *is = value_of(here.identity, name);
    const bool known = was != nullptr && is != nullptr;
    if (known ? *was == *is : here.where_known.contains(name)) continue;
    const std::optional<std::string> why = here.why_not ? here.why_not(found, name) : "";
    if (!why) continue;
    const size_t from = shown_from(was, is);
    raise<FileError>(kCheckpointsTag, "'{}' is of another training: its {} is {}, but {} here{}{}",
                     found.path, name, shown(was, from), shown(is, from), why->empty() ? "" : "; ",
                     *why);
  }
}

}  // namespace brim
