// libjpeg reports errors through callbacks that must not return. The callbacks jump back to
// `guarded`, and only frames without destructors lie between: what owns memory lives outside.
// clang-format off
#include <cstdio>     // jpeglib.h needs it and does not include it
#include <jpeglib.h>
#include <jerror.h>   // needs jpeglib.h
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/codecs.h"

namespace brim::data {
namespace {

// A progressive file of a few kilobytes can hold thousands of scans, each of which passes over
// the whole image. Encoders write about ten.
constexpr int kMaxScans = 500;

class JpegReader {
 public:
  explicit JpegReader(std::span<const uint8_t> bytes);
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Runs `step`; false where libjpeg gave up, with the reason in `message`. `step` must not own
  /// anything: it may be left by a jump.
  template <class Step>
  bool guarded(Step step) {
    if (setjmp(escape_) != 0) return false;
    step();
    return true;
  }

  /// Reads up to the image's data; false as for `guarded`. Nothing large is allocated yet.
  bool read_header();

  jpeg_decompress_struct info{};
  char message[JMSG_LENGTH_MAX] = "";

 private:
  static JpegReader& self(j_common_ptr info) {
    return *static_cast<JpegReader*>(info->client_data);
  }
  [[noreturn]] static void give_up(j_common_ptr info);
  static void on_message(j_common_ptr info, int level);
  static void on_progress(j_common_ptr info);
  static boolean on_empty(j_decompress_ptr info);
  static void on_skip(j_decompress_ptr info, long count);

  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  jmp_buf escape_;
};

JpegReader::JpegReader(std::span<const uint8_t> bytes) {
  info.err = jpeg_std_error(&errors_);
  info.client_data = this;  // this and `err` are all that jpeg_create_decompress keeps
  errors_.error_exit = &give_up;
  errors_.emit_message = &on_message;
  errors_.output_message = [](j_common_ptr) {};
  source_.next_input_byte = bytes.data();
  source_.bytes_in_buffer = bytes.size();
  source_.init_source = [](j_decompress_ptr) {};
  source_.fill_input_buffer = &on_empty;
  source_.skip_input_data = &on_skip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = [](j_decompress_ptr) {};
  progress_.progress_monitor = &on_progress;
}

bool JpegReader::read_header() {
  return guarded([this] {
    jpeg_create_decompress(&info);
    info.src = &source_;
    info.progress = &progress_;
    jpeg_read_header(&info, TRUE);
  });
}

void JpegReader::give_up(j_common_ptr info) {
  JpegReader& reader = self(info);
  info->err->format_message(info, reader.message);
  std::longjmp(reader.escape_, 1);
}

// libjpeg would go on after damage, with invented pixels. Only warnings that leave every pixel as
// its encoder meant it are let through; files in the wild have them often.
void JpegReader::on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_BOGUS_ICC:
      return;
    default:
      give_up(info);
  }
}

void JpegReader::on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  JpegReader& reader = self(info);
  std::snprintf(reader.message, sizeof reader.message, "it has more than %d scans", kMaxScans);
  std::longjmp(reader.escape_, 1);
}

boolean JpegReader::on_empty(j_decompress_ptr info) {
  JpegReader& reader = self(reinterpret_cast<j_common_ptr>(info));
  std::strcpy(reader.message, "it is cut short: the data ends before the image does");
  std::longjmp(reader.escape_, 1);
}

void JpegReader::on_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) on_empty(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

/// The smallest of 1..8 eighths that leaves the shorter side at least `target` pixels.
int eighths(int64_t shorter, int target) {
  if (target <= 0) return 8;
  int count = 1;
  while (count < 8 && (shorter * count + 7) / 8 < target) ++count;
  return count;
}

/// Inks to light. Adobe's programs store the complement of the inks, which is the usual case.
void cmyk_to_rgb(const uint8_t* cmyk, int pixels, bool inverted, uint8_t* rgb) {
  const uint8_t flip = inverted ? 0 : 255;
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3)
    for (int channel = 0; channel < 3; ++channel) {
      int light = (cmyk[channel] ^ flip) * (cmyk[3] ^ flip);
      rgb[channel] = static_cast<uint8_t>((light + 127) / 255);
    }
}

/// Sets the output's scale and colours; false where the colours cannot become RGB.
bool set_output(jpeg_decompress_struct& info, int target) {
  info.scale_num =
      static_cast<unsigned>(eighths(std::min(info.image_width, info.image_height), target));
  info.scale_denom = 8;
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr:
      info.out_color_space = JCS_RGB;
      return true;
    case JCS_CMYK:
    case JCS_YCCK:
      info.out_color_space = JCS_CMYK;
      return true;
    default:
      return false;
  }
}

/// Decodes into `image`, which has the output's size. `inks` is one row of CMYK, or empty.
void read_rows(jpeg_decompress_struct& info, Image& image, std::vector<uint8_t>& inks) {
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    uint8_t* rgb = image.row(static_cast<int>(info.output_scanline));
    uint8_t* row = inks.empty() ? rgb : inks.data();
    jpeg_read_scanlines(&info, &row, 1);
    if (!inks.empty()) cmyk_to_rgb(row, image.width, info.saw_Adobe_marker, rgb);
  }
  // Reads up to the end marker, so that a file cut after its last row is found too.
  jpeg_finish_decompress(&info);
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, std::string_view name, DecodeOptions options) {
  JpegReader reader(bytes);
  auto& info = reader.info;
  auto fail = [&] { raise<FileError>(kDecodeTag, "JPEG '{}': {}", name, reader.message); };

  if (!reader.read_header()) fail();
  check_claimed_size("JPEG", name, info.image_width, info.image_height, options.max_pixels);
  expect<FileError>(set_output(info, options.target), kDecodeTag,
                    "JPEG '{}' has {} channels of unknown colours", name, info.num_components);
  if (!reader.guarded([&] { jpeg_calc_output_dimensions(&info); })) fail();

  Image image(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  std::vector<uint8_t> inks;
  if (info.out_color_space == JCS_CMYK) inks.resize(size_t{info.output_width} * 4);
  if (!reader.guarded([&] { read_rows(info, image, inks); })) fail();
  return image;
}

}  // namespace brim::data
