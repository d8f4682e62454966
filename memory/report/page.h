// Pages without their numbers: the files in memory/report/page/, put into one text each by the
// build.
#pragma once

#include <string_view>

namespace brim::memory {

/// HTML in which {{title}} and {{data}} are to be replaced, each once.
extern const std::string_view kPage;
/// With {{title}}, {{subtitle}}, {{summary}}, {{scale}}, {{columns}} and {{rows}}.
extern const std::string_view kNumericsPage;
/// With {{title}}, {{subtitle}}, {{bar}}, {{summary}}, {{modules}} and {{ops}}.
extern const std::string_view kProfilePage;
/// With {{title}}, {{subtitle}}, {{view}}, {{label}}, {{drawing}}, {{rows}} and {{data}}.
extern const std::string_view kRecomputePage;
/// SVG with {{title}}, {{view}}, {{label}} and {{drawing}}.
extern const std::string_view kRecomputePicture;

}  // namespace brim::memory
