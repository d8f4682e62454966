// JPEG and PNG files made in memory, for tests of what reads them. Knobs for the rarer kinds of
// both formats; errors end the program, because a test's own input is never wrong. For tests alone:
// brim writes no images. To change a PNG afterwards see png_bytes.h; to have files to open,
// `TempFolder::write` (temp_folder.h).
#pragma once

// clang-format off
#include <cstdio>     // jpeglib.h needs it and does not include it
#include <jpeglib.h>
// clang-format on
#include <png.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <vector>

namespace brim::testing {

using Bytes = std::vector<uint8_t>;

struct JpegOptions {
  int width = 0, height = 0;
  /// Of the samples given: JCS_RGB (3 bytes), JCS_GRAYSCALE (1) or JCS_CMYK (4).
  J_COLOR_SPACE in = JCS_RGB;
  /// Of the file; JCS_UNKNOWN is the library's choice (YCbCr, grey, CMYK).
  J_COLOR_SPACE file = JCS_UNKNOWN;
  int quality = 95;
  bool progressive = false;
  bool adobe_marker = true;
  int restart_interval = 0;
  /// Overrides `progressive`.
  std::vector<jpeg_scan_info> scans;
  /// Full resolution for the colours, so that they come back closely.
  bool subsampling = false;
  /// Or so many pixels of brightness, along x and y, to one of colour.
  int brightness_x = 1, brightness_y = 1;
};

/// `samples`: height x width x channels.
inline Bytes encode_jpeg(JpegOptions options, std::span<const uint8_t> samples) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);

  info.image_width = static_cast<JDIMENSION>(options.width);
  info.image_height = static_cast<JDIMENSION>(options.height);
  info.in_color_space = options.in;
  info.input_components = options.in == JCS_GRAYSCALE ? 1 : options.in == JCS_CMYK ? 4 : 3;
  jpeg_set_defaults(&info);
  if (options.file != JCS_UNKNOWN) jpeg_set_colorspace(&info, options.file);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (!options.adobe_marker) info.write_Adobe_marker = FALSE;
  if (options.progressive) jpeg_simple_progression(&info);
  if (!options.scans.empty()) {
    info.scan_info = options.scans.data();
    info.num_scans = static_cast<int>(options.scans.size());
  }
  if (!options.subsampling) {
    info.comp_info[0].h_samp_factor = options.brightness_x;
    info.comp_info[0].v_samp_factor = options.brightness_y;
  }
  info.restart_interval = static_cast<unsigned>(options.restart_interval);

  jpeg_start_compress(&info, TRUE);
  const size_t row_bytes = static_cast<size_t>(options.width) * info.input_components;
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<uint8_t*>(samples.data()) + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(out, out + size);
  std::free(out);
  return bytes;
}

struct PngOptions {
  int width = 0, height = 0;
  int color_type = PNG_COLOR_TYPE_RGB;
  int bit_depth = 8;
  bool interlaced = false;
  /// For PNG_COLOR_TYPE_PALETTE.
  std::vector<png_color> palette;
  /// Anything else that is set before the header is written: transparency, gamma.
  std::function<void(png_structp, png_infop)> more;
};

/// `rows`: the file's own rows, packed as PNG packs them (16 bits: the high byte first).
inline Bytes encode_png(const PngOptions& options, std::span<const uint8_t> rows) {
  Bytes bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png))) std::abort();
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, size_t count) {
        auto& out = *static_cast<Bytes*>(png_get_io_ptr(writer));
        out.insert(out.end(), data, data + count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(options.width),
               static_cast<png_uint_32>(options.height), options.bit_depth, options.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!options.palette.empty())
    png_set_PLTE(png, info, options.palette.data(), static_cast<int>(options.palette.size()));
  if (options.more) options.more(png, info);
  png_write_info(png, info);
  const size_t row_bytes = png_get_rowbytes(png, info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass)
    for (int y = 0; y < options.height; ++y)
      png_write_row(png, rows.data() + static_cast<size_t>(y) * row_bytes);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

/// A smooth RGB picture with something to see in every corner: height x width x 3.
inline Bytes smooth_picture(int width, int height) {
  Bytes rgb;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      rgb.push_back(static_cast<uint8_t>(255 * x / width));
      rgb.push_back(static_cast<uint8_t>(255 * y / height));
      rgb.push_back(static_cast<uint8_t>(255 - 127 * x / width - 127 * y / height));
    }
  return rgb;
}

}  // namespace brim::testing
