#include "brim/data/dataset.h"

#include <fmt/format.h>

#include "brim/base/error.h"

namespace brim::data {

std::string classes_without_images(const Dataset& dataset) {
  constexpr int kShown = 5;
  std::vector<bool> has_image(static_cast<size_t>(dataset.classes()));
  for (int64_t i = 0; i < dataset.size(); ++i)
    has_image.at(static_cast<size_t>(dataset.label(i))) = true;
  int64_t missing = 0;
  std::string names;
  for (size_t label = 0; label < has_image.size(); ++label) {
    if (has_image[label] || ++missing > kShown) continue;
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", dataset.class_names()[label]);
  }
  if (missing == 0) return "";
  return fmt::format("{} of {} classes ha{} no image: {}{}", missing, has_image.size(),
                     missing == 1 ? "s" : "ve", names, missing > kShown ? ", ..." : "");
}

}  // namespace brim::data
