// Whether pictures are turned the way up that EXIF says: `--no-exif` leaves their pixels as they
// are stored. In a program of your own set `data::DecodeOptions::exif` (data/decode.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace brim::examples {

/// Declares it; `exif`, which stays empty where it is not given, must outlive the parsing.
inline void add_exif_flag(CLI::App& app, std::optional<bool>& exif, const std::string& unasked) {
  // A flag that is bound to an optional would be false where it is not given.
  app.add_flag_function(
      "--exif,!--no-exif", [&exif](int64_t given) { exif = given > 0; },
      "turn pictures the way up that EXIF says, or leave their pixels as they are stored "
      "(default: " +
          unasked + ")");
}

}  // namespace brim::examples
