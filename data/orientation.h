// Which way up a picture is: what EXIF's tag 274 ("Orientation") says of how the rows and columns
// of a file become those that are seen. Finds the tag in the bytes of a file, and turns pixels.
// The bytes are untrusted: whatever they are, the answer is one of the eight, and `upright` where
// there is no tag or it makes no sense. Internal to `data/decode.h`, which puts both together.
//
// Source: Exif 2.32 (CIPA DC-008-2019), 4.6.2 and 4.6.4; eXIf of PNG: PNG 1.5.0 extensions.
#pragma once

#include <cstdint>
#include <span>

#include "brim/data/image.h"

namespace brim::data {

/// The pixel that is seen at (x, y) of W x H stored ones; the values are the tag's.
enum class Orientation : uint8_t {
  upright = 1,   ///< (x, y)
  mirrored,      ///< (W-1-x, y)
  upside_down,   ///< (W-1-x, H-1-y)
  flipped,       ///< (x, H-1-y)
  transposed,    ///< (y, x)
  clockwise,     ///< (y, H-1-x): to be turned clockwise to be seen
  transversed,   ///< (W-1-y, H-1-x)
  anticlockwise  ///< (W-1-y, x)
};

/// What the first block of EXIF in a whole JPEG or PNG file says.
Orientation orientation_of(std::span<const uint8_t> file);

/// What such a block says, a TIFF header and what follows.
Orientation orientation_of_exif(std::span<const uint8_t> block);

/// Whether width and height change places.
bool swaps_sides(Orientation orientation);

/// Where the part that is seen in `seen` lies among width x height stored pixels.
Box stored_box(Box seen, Orientation orientation, int width, int height);

/// As it is seen; an upright one is not copied.
ImagePart turned(ImagePart stored, Orientation orientation);

}  // namespace brim::data
