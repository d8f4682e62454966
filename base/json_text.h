// JSON as text where strings come from outside: paths, and names of folders. JSON cannot hold bytes
// that are no UTF-8, and the library throws at the first; here they are written as utf8.h says. For
// `nlohmann::json` and its like, which this header does not include.
#pragma once

#include <string>

#include "brim/base/utf8.h"

namespace brim {

/// In all of its strings, but for the names of an object's members.
template <class Json>
void escape_strings(Json& json) {
  if (json.is_string())
    json = escaped_utf8(json.template get_ref<const std::string&>());
  else if (json.is_structured())
    for (Json& part : json) escape_strings(part);
}

/// All of it on one line.
template <class Json>
std::string json_text(Json json) {
  try {
    return json.dump();
  } catch (const typename Json::type_error&) {
    escape_strings(json);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace brim
