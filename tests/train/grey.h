// A dataset of plain images, for evaluations whose result is known: how light an image is tells its
// number, and some of them may be bad. For images that can be learned take `data::Shapes`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/dataset.h"

namespace brim::testing {

/// Image i is all value 10 * i, of class labels[i].
struct Grey final : data::Dataset {
  explicit Grey(std::vector<int64_t> given, std::set<int64_t> unreadable = {})
      : labels(std::move(given)), bad(std::move(unreadable)) {}
  int64_t size() const override { return static_cast<int64_t>(labels.size()); }
  const std::vector<std::string>& class_names() const override { return names; }
  int64_t label(int64_t i) const override { return labels[static_cast<size_t>(i)]; }
  data::Image read(int64_t i, int) const override {
    if (bad.count(i)) raise<FileError>("grey", "'{}' is bad", i);
    data::Image image(8, 8);
    std::ranges::fill(image.pixels, static_cast<uint8_t>(10 * i));
    return image;
  }
  std::string describe(int64_t i) const override { return std::to_string(i); }
  std::vector<int64_t> labels;
  std::set<int64_t> bad;
  std::vector<std::string> names{"dark", "light"};
};

}  // namespace brim::testing
