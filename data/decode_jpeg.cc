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
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/codecs.h"

namespace brim::data {
namespace {

// A progressive file of a few kilobytes can hold thousands of scans, each of which passes over
// the whole image. Encoders write about ten.
constexpr int kMaxScans = 500;
constexpr const char* kCutShort = "it is cut short: the data ends before the image does";

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
  std::strcpy(reader.message, kCutShort);
  std::longjmp(reader.escape_, 1);
}

void JpegReader::on_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) on_empty(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

/// The smallest of 1, 2, 4 and 8 eighths that leaves the shorter side at least `target` pixels.
/// libjpeg-turbo has others too, but no vector instructions for them: they take longer than 8.
int eighths(int64_t shorter, int target) {
  if (target <= 0) return 8;
  int count = 1;
  while (count < 8 && (shorter * count + 7) / 8 < target) count *= 2;
  return count;
}

/// Inks to light. What is stored is the complement of the inks, as Adobe's programs do it: Pillow
/// takes it so too where no marker of Adobe's says it.
void cmyk_to_rgb(const uint8_t* cmyk, int pixels, uint8_t* rgb) {
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3)
    for (int channel = 0; channel < 3; ++channel)
      rgb[channel] = static_cast<uint8_t>((cmyk[channel] * cmyk[3] + 127) / 255);
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

/// The next row, to RGB. `inks` is one row of CMYK, or empty.
void read_row(jpeg_decompress_struct& info, std::vector<uint8_t>& inks, uint8_t* rgb) {
  uint8_t* row = inks.empty() ? rgb : inks.data();
  jpeg_read_scanlines(&info, &row, 1);
  if (!inks.empty()) cmyk_to_rgb(row, static_cast<int>(info.output_width), rgb);
}

/// Decodes into `image`, which has the output's size.
void read_rows(jpeg_decompress_struct& info, Image& image, std::vector<uint8_t>& inks) {
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height)
    read_row(info, inks, image.row(static_cast<int>(info.output_scanline)));
  // Reads up to the end marker, so that a file cut after its last row is found too.
  jpeg_finish_decompress(&info);
}

// Colours at a lower resolution are interpolated between neighbours, which a part must have too.
constexpr int kNeighbours = 2;

/// Whether libjpeg can leave columns out. Where it makes up for a colour's lower resolution in part
/// by a larger block and in part by repeating pixels, it would take the wrong ones.
bool can_crop_columns(const jpeg_decompress_struct& info) {
  return std::all_of(info.comp_info, info.comp_info + info.num_components, [&](const auto& colour) {
    return colour.DCT_scaled_size == info.min_DCT_scaled_size ||
           colour.h_samp_factor * colour.DCT_scaled_size ==
               info.max_h_samp_factor * info.min_DCT_scaled_size;
  });
}

/// Begins to decode the rows of `box`; says in `read` which columns will come, in whole blocks.
void start_part(jpeg_decompress_struct& info, Box box, Box& read) {
  jpeg_start_decompress(&info);
  const auto all = static_cast<int>(info.output_width);
  const int left = std::max(box.x - kNeighbours, 0);
  auto x = static_cast<JDIMENSION>(left);
  auto width = static_cast<JDIMENSION>(std::min(box.x + box.width + kNeighbours, all) - left);
  if (!can_crop_columns(info)) x = 0, width = info.output_width;
  if (width < info.output_width) jpeg_crop_scanline(&info, &x, &width);
  if (box.y > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(box.y));
  read.x = static_cast<int>(x);
  read.width = static_cast<int>(width);
}

void read_part_rows(jpeg_decompress_struct& info, Image& image, std::vector<uint8_t>& inks) {
  for (int y = 0; y < image.height; ++y) read_row(info, inks, image.row(y));
}

/// Whether the end marker is in what is left of the file; an image's data cannot hold it.
bool reaches_end(jpeg_decompress_struct& info) {
  if (info.unread_marker == JPEG_EOI || jpeg_input_complete(&info)) return true;
  const uint8_t *at = info.src->next_input_byte, *end = at + info.src->bytes_in_buffer;
  while (at < end && (at = static_cast<const uint8_t*>(std::memchr(at, 0xFF, end - at)))) {
    if (++at < end && *at == JPEG_EOI) return true;
  }
  return false;
}

[[noreturn]] void fail(const JpegReader& reader, std::string_view name) {
  raise<FileError>(kDecodeTag, "JPEG '{}': {}", name, reader.message);
}

/// Reads the header and sets the output's size. Throws as `decode_jpeg` does.
void begin(JpegReader& reader, std::string_view name, const DecodeOptions& options) {
  auto& info = reader.info;
  if (!reader.read_header()) fail(reader, name);
  check_claimed_size("JPEG", name, info.image_width, info.image_height, options.max_pixels);
  expect<FileError>(set_output(info, options.target), kDecodeTag,
                    "JPEG '{}' has {} channels of unknown colours", name, info.num_components);
  if (!reader.guarded([&] { jpeg_calc_output_dimensions(&info); })) fail(reader, name);
}

/// Room for a row of CMYK, where the output is that.
std::vector<uint8_t> room_for_inks(const jpeg_decompress_struct& info) {
  return std::vector<uint8_t>(info.out_color_space == JCS_CMYK ? size_t{info.output_width} * 4 : 0);
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, std::string_view name,
                  const DecodeOptions& options) {
  JpegReader reader(bytes);
  auto& info = reader.info;
  begin(reader, name, options);
  Image image(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  std::vector<uint8_t> inks = room_for_inks(info);
  if (!reader.guarded([&] { read_rows(info, image, inks); })) fail(reader, name);
  return image;
}

ImagePart decode_jpeg_part(std::span<const uint8_t> bytes, std::string_view name,
                           const ChooseBox& wanted, const DecodeOptions& options) {
  JpegReader reader(bytes);
  auto& info = reader.info;
  begin(reader, name, options);
  const int width = static_cast<int>(info.output_width),
            height = static_cast<int>(info.output_height);
  const Box box = wanted(width, height);
  std::vector<uint8_t> inks = room_for_inks(info);

  Box read{0, box.y, 0, box.height};
  if (!reader.guarded([&] { start_part(info, box, read); })) fail(reader, name);
  Image image(read.width, read.height);
  if (!reader.guarded([&] { read_part_rows(info, image, inks); })) fail(reader, name);
  expect<FileError>(reaches_end(info), kDecodeTag, "JPEG '{}': {}", name, kCutShort);
  return {std::move(image), read, width, height};
}

}  // namespace brim::data
