#include "brim/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace brim {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  std::string best;
  size_t least = std::string_view::npos;
  for (const std::string& candidate : known) {
    size_t distance = edit_distance(name, candidate);
    if (distance < least && 2 * distance <= std::max(name.size(), candidate.size())) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string to_string(const DidYouMean& suggestion) {
  std::string nearest = nearest_name(suggestion.name, suggestion.known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace brim
