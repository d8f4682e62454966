#include "brim/memory/plan/mismatches.h"

#include <fmt/format.h>

#include "brim/base/bytes.h"

namespace brim::memory {

void Mismatches::add(const Request& request, const ArenaBlock* holder) {
  ++count_;
  if (first_.size() == kReported) return;
  Mismatch mismatch{*request.site, request.bytes};
  if (holder != nullptr) {
    mismatch.holder = holder->site;
    mismatch.held = holder->bytes;
  }
  first_.push_back(mismatch);
}

std::string Mismatches::report() const {
  if (count_ == 0) return "";
  auto who = [](const Site& site) {
    std::string text = *site.op == '\0' ? "no op" : site.op;
    if (!site.path().empty()) text += " in " + site.path();
    if (*site.file != '\0') text += fmt::format(" ({}:{})", site.file, site.line);
    return text;
  };
  std::string text = fmt::format("{} requests were not served as planned\n", count_);
  for (const Mismatch& m : first_) {
    text += fmt::format("  {} of {}: ", format_bytes(m.bytes), who(m.site));
    text += m.held == 0 ? "not in the plan\n"
                        : fmt::format("{} of {} were in its place, kept beyond the plan\n",
                                      format_bytes(m.held), who(m.holder));
  }
  if (count_ > static_cast<int64_t>(first_.size())) text += "  ...\n";
  return text;
}

}  // namespace brim::memory
