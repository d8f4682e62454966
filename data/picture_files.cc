#include "brim/data/picture_files.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "brim/base/error.h"
#include "brim/base/stop.h"

namespace brim::data {
namespace {

constexpr const char* kTag = "image_folder";
constexpr std::array<std::string_view, 6> kEndings{"jpg", "jpeg", "jpe", "jfif", "jif", "png"};
constexpr size_t kLongestEnding = 8, kKindsShown = 8;

enum class EntryKind { file, folder, other };

/// By which a folder is known again, whatever path leads to it.
using FolderId = std::pair<dev_t, ino_t>;

std::string reason(int error) { return std::generic_category().message(error); }

EntryKind kind_of(const std::string& path, const dirent& entry) {
  if (entry.d_type == DT_REG) return EntryKind::file;
  if (entry.d_type == DT_DIR) return EntryKind::folder;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return EntryKind::other;
  struct stat status;
  if (::stat(path.c_str(), &status) != 0)
    raise<FileError>(kTag, "'{}' {}: {}", path,
                     entry.d_type == DT_LNK ? "is a link that leads nowhere" : "cannot be examined",
                     reason(errno));
  if (S_ISREG(status.st_mode)) return EntryKind::file;
  return S_ISDIR(status.st_mode) ? EntryKind::folder : EntryKind::other;
}

bool is_of_no_data_set(std::string_view name) {
  return name.starts_with('.') || name == "__MACOSX";
}

/// Calls `visit(path, dirent)` for each entry of `folder` that may be of a data set, and
/// `enter(id)` before them.
template <class Enter, class Visit>
void for_each_entry(const std::string& folder, const Enter& enter, const Visit& visit) {
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
  struct stat status;
  if (!directory || ::fstat(::dirfd(directory.get()), &status) != 0)
    raise<FileError>(kTag, "cannot open the folder '{}': {}", folder, reason(errno));
  enter(FolderId{status.st_dev, status.st_ino});
  for (;;) {
    stop_if_asked();  // on a network file system a listing takes minutes
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    if (!is_of_no_data_set(entry->d_name)) visit(folder + "/" + entry->d_name, *entry);
  }
  if (errno != 0) raise<FileError>(kTag, "cannot list the folder '{}': {}", folder, reason(errno));
}

/// What follows the last dot, in small letters; "" for what no program calls its files.
std::string ending_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.size() - dot > kLongestEnding + 1) return "";
  std::string ending(name.substr(dot + 1));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) return "";
  }
  return ending;
}

/// One walk below a folder.
struct Walk {
  size_t prefix;  // of a path, up to what is told
  LeftOut& left_out;
  const std::function<void(std::string_view)>& take;
  std::vector<FolderId> inside = {};  // the folders that the walk is in

  void visit(const std::string& folder) {
    for_each_entry(
        folder,
        [&](FolderId id) {
          expect<FileError>(!std::ranges::count(inside, id), kTag,
                            "the folder '{}' leads back to one that it is in", folder);
          inside.push_back(id);
        },
        [&](const std::string& path, const dirent& entry) { visit(path, entry); });
    inside.pop_back();
  }

  void visit(const std::string& path, const dirent& entry) {
    const EntryKind kind = kind_of(path, entry);
    if (kind == EntryKind::folder) return visit(path);
    const std::string ending = ending_of(entry.d_name);
    if (kind == EntryKind::other)
      ++left_out["that are no plain files"];
    else if (std::ranges::count(kEndings, ending))
      take(std::string_view(path).substr(prefix));
    else
      ++left_out[ending.empty() ? "without an ending" : "." + ending];
  }
};

}  // namespace

const char* const kPictureEndings = ".jpg, .jpeg, .jpe, .jfif, .jif or .png";

void find_pictures(const std::string& folder, LeftOut& left_out,
                   const std::function<void(std::string_view path)>& take) {
  Walk{.prefix = folder.size() + 1, .left_out = left_out, .take = take}.visit(folder);
}

std::vector<std::string> find_folders(const std::string& folder, LeftOut& left_out) {
  std::vector<std::string> names;
  auto visit = [&](const std::string& path, const dirent& entry) {
    if (kind_of(path, entry) == EntryKind::folder)
      names.emplace_back(entry.d_name);
    else
      ++left_out["beside the class folders"];
  };
  for_each_entry(
      folder, [](FolderId) {}, visit);
  std::ranges::sort(names);
  return names;
}

std::string describe(const LeftOut& left_out) {
  std::vector<std::pair<std::string, int64_t>> kinds(left_out.begin(), left_out.end());
  std::ranges::stable_sort(kinds, std::greater(), &std::pair<std::string, int64_t>::second);
  int64_t files = 0, others = 0;
  std::string text;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto& [kind, count] = kinds[i];
    files += count;
    if (i < kKindsShown)
      text += fmt::format("{}{} {}", i == 0 ? "" : ", ", count, kind);
    else
      others += count;
  }
  if (files == 0) return "";
  if (others > 0) text += fmt::format(", {} of other kinds", others);
  return fmt::format("{} file{}: {}", files, files == 1 ? "" : "s", text);
}

}  // namespace brim::data
