// Text that goes into pages: made safe for HTML, SVG and scripts, and put where a page has marks.
// What a page draws with JavaScript is JSON (page_data.h); what is drawn here already is markup.
// For the text of messages there is nothing to make safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brim::memory {

/// For text between tags and within quotation marks.
std::string escaped(std::string_view text);

/// JSON in which no "<" is left, so that it can stand inside a <script> element.
std::string for_script(std::string_view json);

/// `page` with each mark, such as {{title}}, replaced where it stands; marks in what replaces them
/// stay. All of them stand in the page.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& marks);

}  // namespace brim::memory
