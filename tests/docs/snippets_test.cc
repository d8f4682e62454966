// The pages of the book against the programs: every C++ block must be an excerpt of a file that
// is built and run, every marked excerpt must be shown somewhere, every link must lead somewhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

/// Some lines of a file, and where they are.
struct Excerpt {
  std::string place;  // "docs/tensors.md:12", "docs/snippets/tensors_1.cc [create]"
  Lines lines;
};

Lines read_lines(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), "cannot read " << path << "; is it in the test's data?");
  Lines lines;
  for (std::string line; std::getline(file, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    lines.push_back(line);
  }
  return lines;
}

std::vector<fs::path> files(const std::string& folder, const std::string& ending) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> pages() {
  auto all = files("docs", ".md");
  all.emplace_back("README.md");
  return all;
}

/// Without the indentation that all lines share.
Lines dedented(Lines lines) {
  size_t least = std::string::npos;
  for (const std::string& line : lines) least = std::min(least, line.find_first_not_of(' '));
  for (std::string& line : lines)
    if (!line.empty()) line.erase(0, least);
  return lines;
}

/// The blocks between ```cpp and ``` of a page.
std::vector<Excerpt> blocks(const std::string& page, const Lines& lines) {
  std::vector<Excerpt> found;
  bool inside = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!inside && lines[i] == "```cpp") {
      found.push_back({page + ":" + std::to_string(i + 1), {}});
      inside = true;
    } else if (inside && lines[i] == "```") {
      inside = false;
    } else if (inside) {
      found.back().lines.push_back(lines[i]);
    }
  }
  CHECK_MESSAGE(!inside, found.back().place << ": the block does not end");
  return found;
}

/// What stands between `// [name]` and `// [/name]` in a source file.
std::vector<Excerpt> marked(const std::string& source, const Lines& lines) {
  static const std::regex mark(R"( *// \[(/?)([a-z0-9-]+)\])");
  std::vector<Excerpt> found;
  std::string open;
  for (const std::string& line : lines) {
    std::smatch match;
    if (!std::regex_match(line, match, mark)) {
      if (!open.empty()) found.back().lines.push_back(line);
      continue;
    }
    bool closes = match[1].length() > 0;
    CHECK_MESSAGE(open == (closes ? match[2].str() : ""), source << ": stray " << line);
    open = closes ? "" : match[2].str();
    if (!closes) found.push_back({source + " [" + open + "]", {}});
  }
  CHECK_MESSAGE(open.empty(), source << ": [" << open << "] does not end");
  return found;
}

/// All excerpts that a page may show.
std::vector<Excerpt> excerpts() {
  auto sources = files("docs/snippets", ".cc");
  for (const char* ending : {".h", ".cc"})
    for (const fs::path& file : files("docs/lse_pool", ending)) sources.push_back(file);
  sources.emplace_back("tests/docs/lse_pool_test.cc");
  std::vector<Excerpt> all;
  for (const char* whole : {"base/cuda/context.cc", "core/cuda/compute.cuh", "core/cuda/vector.cuh",
                            "docs/snippets/first_program.cc", "examples/hello.cc", "ops/activation_functors.h", "ops/cuda/reduce.cuh",
                            "ops/cuda/workspace.h", "ops/silu.cc", "optim/judge_kernel.h"})
    all.push_back({whole, read_lines(whole)});
  for (const fs::path& source : sources)
    for (Excerpt& excerpt : marked(source.string(), read_lines(source)))
      all.push_back(std::move(excerpt));
  return all;
}

/// Are the lines of `block`, in one piece, in `excerpt`, at any indentation?
bool shows(const Lines& block, const Lines& excerpt) {
  Lines wanted = dedented(block);
  for (size_t from = 0; from + wanted.size() <= excerpt.size(); ++from) {
    auto begin = excerpt.begin() + static_cast<std::ptrdiff_t>(from);
    if (dedented(Lines(begin, begin + static_cast<std::ptrdiff_t>(wanted.size()))) == wanted)
      return true;
  }
  return false;
}

/// The anchor of a heading, as GitHub makes it.
std::string anchor(const std::string& heading) {
  std::string text;
  for (unsigned char c : heading.substr(heading.find(' ') + 1))
    if (c == ' ')
      text += '-';
    else if (std::isalnum(c) || c == '-' || c == '_' || c >= 128)
      text += static_cast<char>(std::tolower(c));
  return text;
}

bool has_anchor(const fs::path& page, const std::string& wanted) {
  return std::ranges::any_of(read_lines(page), [&](const std::string& line) {
    return line.starts_with("#") && anchor(line) == wanted;
  });
}

}  // namespace

TEST_CASE("every C++ block of the book is part of a program that the tests run") {
  auto known = excerpts();
  int count = 0;
  for (const fs::path& page : pages())
    for (const Excerpt& block : blocks(page.string(), read_lines(page))) {
      ++count;
      bool found = !block.lines.empty() && std::ranges::any_of(known, [&](const Excerpt& excerpt) {
        return shows(block.lines, excerpt.lines);
      });
      CHECK_MESSAGE(found, block.place << ": no marked excerpt has this block");
    }
  CHECK(count > 30);
}

TEST_CASE("every marked excerpt is shown on a page, at least in part") {
  std::vector<Excerpt> shown;
  for (const fs::path& page : pages())
    for (Excerpt& block : blocks(page.string(), read_lines(page))) shown.push_back(block);
  for (const Excerpt& excerpt : excerpts())
    CHECK_MESSAGE(
        std::ranges::any_of(
            shown, [&](const Excerpt& block) { return shows(block.lines, excerpt.lines); }),
        excerpt.place << " is on no page");
}

TEST_CASE("links between pages lead to a page and a heading") {
  static const std::regex link(R"(\]\(([a-z_/A-Z]*\.md)?(#[^)]*)?\))");
  for (const fs::path& page : pages())
    for (const std::string& line : read_lines(page))
      for (std::sregex_iterator at(line.begin(), line.end(), link), end; at != end; ++at) {
        std::string file = (*at)[1], heading = (*at)[2];
        if (file.empty() && heading.empty()) continue;
        fs::path target = file.empty() ? page : page.parent_path() / file;
        CHECK_MESSAGE(fs::exists(target), page << " links to " << target);
        if (!heading.empty() && fs::exists(target))
          CHECK_MESSAGE(has_anchor(target, heading.substr(1)),
                        page << " links to the heading " << heading << " of " << target);
      }
}

TEST_CASE("pictures of the pages are there") {
  static const std::regex picture(R"(\]\((images/[^)]*)\))");
  int count = 0;
  for (const fs::path& page : pages())
    for (const std::string& line : read_lines(page))
      for (std::sregex_iterator at(line.begin(), line.end(), picture), end; at != end; ++at) {
        ++count;
        CHECK_MESSAGE(fs::exists(page.parent_path() / (*at)[1].str()),
                      page << " shows " << (*at)[1]);
      }
  CHECK(count > 2);
}

TEST_CASE("the comparison sees a changed line, and not the indentation") {
  Lines source{"int main() {", "  // [a]", "  if (x)", "    y();", "", "  z();", "  // [/a]", "}"};
  auto excerpt = marked("source", source);
  REQUIRE(excerpt.size() == 1);
  CHECK(excerpt[0].place == "source [a]");
  auto block = [](const Lines& lines) {
    Lines page{"text", "```cpp"};
    page.insert(page.end(), lines.begin(), lines.end());
    page.push_back("```");
    auto found = blocks("page", page);
    REQUIRE(found.size() == 1);
    CHECK(found[0].place == "page:2");
    return found[0].lines;
  };
  CHECK(shows(block({"if (x)", "  y();", "", "z();"}), excerpt[0].lines));
  CHECK(shows(block({"  y();"}), excerpt[0].lines));
  CHECK(!shows(block({"if (x)", "  y(1);"}), excerpt[0].lines));
  CHECK(!shows(block({"if (x)", "y();"}), excerpt[0].lines));
  CHECK(!shows(block({"if (x)", "  y();", "z();"}), excerpt[0].lines));
  CHECK(anchor("## A step that can be undone") == "a-step-that-can-be-undone");
}
