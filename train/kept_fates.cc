#include "brim/train/kept_fates.h"

#include <string_view>

#include "brim/base/error.h"

namespace brim {
namespace {

constexpr std::string_view kFates = "krmo";  // by number

}  // namespace

std::vector<std::string> to_texts(const autograd::Fates& fates) {
  std::vector<std::string> calls;
  for (const auto& call : fates) {
    std::string& text = calls.emplace_back();
    for (const memory::Fate fate : call) text += kFates[static_cast<size_t>(fate)];
  }
  return calls;
}

autograd::Fates fates_from(const std::vector<std::string>& calls, const char* tag) {
  autograd::Fates fates;
  for (const std::string& call : calls) {
    auto& of_call = fates.emplace_back();
    for (const char letter : call) {
      const size_t number = kFates.find(letter);
      expect<FileError>(number < kFates.size(), tag, "expected a fate of {}, got '{}'", kFates,
                        letter);
      of_call.push_back(static_cast<memory::Fate>(number));
    }
  }
  return fates;
}

}  // namespace brim
