// libpng reports errors through a callback that must not return. It jumps back to `guarded`, and
// only frames without destructors lie between: what owns memory lives outside.
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "brim/base/error.h"
#include "brim/data/codecs.h"

namespace brim::data {
namespace {

class PngReader {
 public:
  explicit PngReader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// Runs `step`; false where libpng gave up, with the reason in `message`. `step` must not own
  /// anything: it may be left by a jump.
  template <class Step>
  bool guarded(Step step) {
    if (setjmp(escape_) != 0) return false;
    step();
    return true;
  }

  /// Reads up to the image's data; false as for `guarded`. Nothing large is allocated yet.
  bool read_header();

  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = "out of memory";
  bool ran_out = false;  // of bytes

 private:
  [[noreturn]] static void on_error(png_structp png, const char* text);
  static void on_read(png_structp png, png_bytep out, size_t count);

  std::span<const uint8_t> rest_;
  jmp_buf escape_;
};

void PngReader::on_error(png_structp png, const char* text) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader.message, sizeof reader.message, "%s", text);
  std::longjmp(reader.escape_, 1);
}

void PngReader::on_read(png_structp png, png_bytep out, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.rest_.size()) {
    reader.ran_out = true;
    png_error(png, "it is cut short: the data ends before the image does");
  }
  std::memcpy(out, reader.rest_.data(), count);
  reader.rest_ = reader.rest_.subspan(count);
}

bool PngReader::read_header() {
  return guarded([this] {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &on_error,
                                 [](png_structp, const char*) {});
    if (png == nullptr) std::longjmp(escape_, 1);
    info = png_create_info_struct(png);
    if (info == nullptr) std::longjmp(escape_, 1);
    png_set_read_fn(png, this, &on_read);
    // The product of the sides is checked by the caller; libpng's own limit of 1,000,000 a side
    // would refuse long thin images with another message.
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Text, profiles and the like do not change a pixel and may inflate to a thousand times their
    // length: every ancillary chunk but the transparent colours is passed over, however long.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_chunk_malloc_max(png, 0);
    png_read_info(png, info);
  });
}

/// Whatever the file holds, rows come out as 8-bit RGB. Returns the number of passes.
int set_output(png_structp png, png_infop info) {
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return passes;
}

void read_rows(png_structp png, int passes, Image& image) {
  for (int pass = 0; pass < passes; ++pass)
    for (int y = 0; y < image.height; ++y) png_read_row(png, image.row(y), nullptr);
}

}  // namespace

Image decode_png(std::span<const uint8_t> bytes, std::string_view name,
                 const DecodeOptions& options) {
  PngReader reader(bytes);
  auto fail = [&] { raise<FileError>(kDecodeTag, "PNG '{}': {}", name, reader.message); };

  if (!reader.read_header()) fail();
  int64_t width = png_get_image_width(reader.png, reader.info);
  int64_t height = png_get_image_height(reader.png, reader.info);
  check_claimed_size("PNG", name, width, height, options.max_pixels);

  int passes = 0;
  if (!reader.guarded([&] { passes = set_output(reader.png, reader.info); })) fail();
  Image image(static_cast<int>(width), static_cast<int>(height));
  check(png_get_rowbytes(reader.png, reader.info) == static_cast<size_t>(width) * 3,
        "a PNG's rows come out as RGB");
  if (!reader.guarded([&] { read_rows(reader.png, passes, image); })) fail();
  // Up to the end chunk: damage to the pixels' checksums is found there.
  if (!reader.guarded([&] { png_read_end(reader.png, nullptr); })) {
    if (!reader.ran_out) fail();
    if (options.note)
      options.note(fmt::format("PNG '{}' ends after its pixels, without an end mark", name));
  }
  return image;
}

}  // namespace brim::data
