#include "brim/shrink/named_parts.h"

#include <algorithm>

#include "brim/base/nearest.h"

namespace brim::shrink {

void require_parts(nn::Module& model, const std::vector<std::string>& names, const char* tag) {
  std::vector<std::string> known;
  for (const nn::NamedModule& below : model.named_modules())
    if (!below.name.empty()) known.push_back(below.name);
  for (const nn::NamedTensor& parameter : model.named_parameters()) known.push_back(parameter.name);
  for (const std::string& name : names)
    expect<ValueError>(std::ranges::count(known, name) > 0, tag,
                       "there is no module or parameter '{}'{}", name, did_you_mean(name, known));
}

bool is_in_parts(const std::string& tensor, const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return nn::is_at_or_below(tensor, name); });
}

}  // namespace brim::shrink
