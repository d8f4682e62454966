// Bilinear resizing with antialiasing: when an image shrinks, the triangle filter widens with it,
// so that every source pixel counts. The same method, and the same bytes, as Pillow's BILINEAR
// (and torchvision's `antialias=True` on Pillow images): coefficients rounded to 22 bits, sums in
// whole numbers, columns first and then rows with 8 bits between. Whole numbers make the result
// the same on every machine. On the CPU, for one image at a time; not differentiable.
#pragma once

#include <cstdint>

#include "brim/data/image.h"

namespace brim::data {

/// Resizes what `crop` holds of `image` to width x height, as if it had been cut out first.
/// `crop` lies inside the image; all sides are at least 1. Throws `ValueError` otherwise.
Image resize(const Image& image, Box crop, int width, int height);

/// The whole image.
Image resize(const Image& image, int width, int height);

/// Writes only `window` of that result, window.height x window.width x 3 bytes, and computes no
/// more than it needs. `window` lies inside width x height. Of the image, `crop` is in its own
/// pixels, the view may have no more than `resize_source`.
void resize_into(const ImageView& image, Box crop, int width, int height, Box window, uint8_t* out);

/// The pixels of `crop` that `window` is made from, in those of the image.
Box resize_source(Box crop, int width, int height, Box window);

}  // namespace brim::data
