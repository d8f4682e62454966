// Files of two lines of JSON that brim keeps for later runs and trusts no more than any other: the
// first has their format, version and a checksum of the second. Internal to what is kept
// (speed_file.cc, engine_file.cc); checkpoints and plans have formats of their own.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "brim/base/error.h"
#include "brim/io/checksum.h"

namespace brim {

struct KeptJson {
  using Json = nlohmann::json;

  const char* tag;   ///< of errors
  const char* what;  ///< "op times": the format is "brim op times"
  int version;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    raise<FileError>(tag, "{}", fmt::format(text, std::forward<Args>(args)...));
  }

  /// An object. Throws `FileError`, as all here.
  Json parse(std::string_view text) const {
    Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!value.is_object()) refuse("it is not JSON");
    return value;
  }

  const Json& field(const Json& object, const char* name) const {
    if (!object.is_object() || !object.contains(name)) refuse("there is no '{}'", name);
    return object[name];
  }

  std::string to_text(const Json& body) const {
    const std::string line = body.dump();
    const Json head{{"format", format()}, {"version", version}, {"checksum", sum_of(line)}};
    return head.dump() + "\n" + line + "\n";
  }

  /// The second line of `text`, if the first one is right.
  Json body_of(std::string_view text) const {
    const size_t end = text.find('\n');
    if (end == text.npos || !text.ends_with('\n') || end + 1 == text.size())
      refuse("it is damaged: expected two lines");
    const std::string_view body = text.substr(end + 1, text.size() - end - 2);
    require_head(parse(text.substr(0, end)), body);
    return parse(body);
  }

 private:
  std::string format() const { return std::string("brim ") + what; }

  static uint64_t sum_of(std::string_view text) {
    io::Checksum sum;
    sum.add(text);
    return sum.value();
  }

  void require_head(const Json& head, std::string_view body) const {
    if (field(head, "format") != format()) refuse("it is no file of {}", what);
    const Json& found = field(head, "version");
    if (found != version)
      refuse("it is of version {}, and this reads version {}", found.dump(), version);
    if (field(head, "checksum") != sum_of(body)) refuse("it is damaged: its checksum is wrong");
  }
};

}  // namespace brim
