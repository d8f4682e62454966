// Whether pictures are turned the way up that EXIF says: `--no-exif` leaves their pixels as they
// are stored. In a program of your own set `data::DecodeOptions::exif` (data/decode.h).
#pragma once

#include <optional>
#include <string>

#include "brim/apps/support/app.h"

namespace brim::apps {

/// Declares it; `exif`, which stays empty where it is not given, must outlive the parsing.
inline void add_exif_flag(App& app, std::optional<bool>& exif, const std::string& unasked) {
  app.add_flag("--exif,!--no-exif", exif,
               "turn pictures the way up that EXIF says, or leave their pixels as they are stored "
               "(default: " +
                   unasked + ")");
}

}  // namespace brim::apps
