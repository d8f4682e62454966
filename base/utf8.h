// Text that may not be UTF-8, such as a path: JSON cannot hold it, and terminals show it in ways of
// their own. Wherever a name leaves brim, in what is printed and in files, a byte that is part of
// no UTF-8 is written as \xNN, in upper case hexadecimal digits. All else stays as it is, a
// backslash too: a name that has the four characters \xNN in it reads like one that has the byte.
// Paths are opened by the bytes that they are given with.
#pragma once

#include <string>
#include <string_view>

namespace brim {

/// Whether all of it is UTF-8, without surrogates, overlong forms or what is above U+10FFFF.
bool is_utf8(std::string_view text);

/// `text` with \xNN for each byte that is part of no UTF-8.
std::string escaped_utf8(std::string_view text);

}  // namespace brim
