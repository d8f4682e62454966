#include "brim/memory/report/markup.h"

#include <algorithm>

#include "brim/base/error.h"

namespace brim::memory {

std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

std::string for_script(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (char c : json) {  // "<" stands only inside strings
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& marks) {
  std::vector<std::pair<size_t, size_t>> places;  // in the page, and the number of the mark
  for (size_t i = 0; i < marks.size(); ++i) {
    size_t at = page.find(marks[i].first);
    check(at != page.npos, "marks in the page");
    for (; at != page.npos; at = page.find(marks[i].first, at + 1)) places.emplace_back(at, i);
  }
  std::ranges::sort(places);
  std::string text;
  size_t done = 0;
  for (const auto& [at, i] : places) {
    text += page.substr(done, at - done);
    text += marks[i].second;
    done = at + marks[i].first.size();
  }
  text += page.substr(done);
  return text;
}

}  // namespace brim::memory
