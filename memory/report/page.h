// The page without its numbers: the files in memory/report/page/, put into one text by the build.
#pragma once

#include <string_view>

namespace brim::memory {

/// HTML in which {{title}} and {{data}} are to be replaced, each once.
extern const std::string_view kPage;

}  // namespace brim::memory
