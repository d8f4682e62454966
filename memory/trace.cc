#include "brim/memory/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "brim/memory/fetch_name.h"

namespace brim::memory {

std::string to_string(const Origin& origin) {
  std::string text;
  auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  if (const auto fetched = fetched_op(origin.op))
    add(fetched->empty() ? "fetch" : fmt::format("fetch of '{}'", *fetched));
  else if (!origin.op.empty())
    add(fmt::format("{} of '{}'", to_string(origin.phase), origin.op));
  if (!origin.module.empty()) add("in " + origin.module);
  if (!origin.file.empty())
    add(fmt::format("({}:{})", origin.file.substr(origin.file.rfind('/') + 1), origin.line));
  return text;
}

std::vector<Lifetime> Trace::lifetimes() const {
  std::vector<Lifetime> lifetimes;
  lifetimes.reserve(buffers.size());
  for (const TraceBuffer& buffer : buffers)
    lifetimes.push_back({buffer.birth, buffer.death, buffer.bytes});
  return lifetimes;
}

int64_t Trace::peak_live() const { return most_live(lifetimes(), end); }

}  // namespace brim::memory
