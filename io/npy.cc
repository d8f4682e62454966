#include "brim/io/npy.h"

#include <array>

#include "brim/core/transfer.h"
#include "brim/io/atomic_file.h"
#include "brim/io/npy_header.h"
#include "brim/io/tensor_bytes.h"

namespace brim::io {
namespace {

constexpr const char* kTag = kNpyTag;
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kLengthAt = 8;             // after the magic and two bytes of version
constexpr int64_t kLongestHeader = 1 << 16;  // that of a plain array has about a hundred bytes
constexpr size_t kAlignment = 64;            // of the first element, as NumPy has it

struct Header {
  std::string text;
  int64_t data_offset = 0;
};

/// Magic, version, length of the header in two bytes (version 1) or four, header.
Header read_header(const InputFile& file) {
  std::array<std::byte, 12> prefix{};
  bool enough = file.size() >= int64_t{sizeof prefix};
  if (enough) file.read(0, prefix);
  std::string_view start(reinterpret_cast<const char*>(prefix.data()), kMagic.size());
  expect<FileError>(enough && start == kMagic, kTag, "'{}' is not an npy file", file.path());
  auto byte = [&](int64_t at) {
    return std::to_integer<uint32_t>(prefix[static_cast<size_t>(at)]);
  };
  uint32_t version = byte(6);
  expect<FileError>(version >= 1 && version <= 3 && byte(7) == 0, kTag,
                    "'{}' is of version {}.{}; known are 1.0 to 3.0", file.path(), version,
                    byte(7));
  int64_t length = byte(kLengthAt) | byte(kLengthAt + 1) << 8;
  if (version > 1)
    length |= int64_t{byte(kLengthAt + 2)} << 16 | int64_t{byte(kLengthAt + 3)} << 24;
  int64_t begin = kLengthAt + (version > 1 ? 4 : 2);
  expect<FileError>(length <= file.size() - begin && length <= kLongestHeader, kTag,
                    "'{}' states a header of {} bytes, more than the file has or the limit of {}",
                    file.path(), length, kLongestHeader);
  Header header{std::string(static_cast<size_t>(length), '\0'), begin + length};
  file.read(begin, std::as_writable_bytes(std::span(header.text)));
  return header;
}

Dims reversed(const Dims& dims) {
  Dims result;
  for (int i = dims.size() - 1; i >= 0; --i) result.push_back(dims[i]);
  return result;
}

}  // namespace

Tensor read_npy(const std::string& path) {
  InputFile file(path, kTag);
  Header header = read_header(file);
  NpyHeader array = parse_npy_header(header.text, path);
  int64_t rest = file.size() - header.data_offset;
  std::optional<int64_t> bytes = byte_count(array.shape, array.dtype);
  expect<FileError>(bytes == rest, kTag, "'{}': {} of {} does not take the {} bytes that follow",
                    path, array.dtype, array.shape, rest);
  Shape in_memory = array.fortran_order ? reversed(array.shape) : array.shape;
  Tensor tensor = empty(in_memory, {.dtype = array.dtype});
  read_elements(file, header.data_offset, "the array", tensor);
  if (!array.fortran_order) return tensor;
  return Tensor(
      tensor.storage(),
      {.shape = array.shape, .strides = reversed(tensor.strides()), .dtype = array.dtype});
}

void write_npy(const std::string& path, const Tensor& tensor) {
  std::string header = format_npy_header({.dtype = tensor.dtype(), .shape = tensor.shape()});
  expect<DeviceError>(!tensor.device().is_meta(), kTag, "expected values, got a tensor on {}",
                      tensor.device());
  size_t before = static_cast<size_t>(kLengthAt) + 2;
  size_t end = (before + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(end - before - 1, ' ');
  header += '\n';
  std::string prefix(kMagic);
  prefix += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
             static_cast<char>(header.size() >> 8)};
  AtomicFile file(path, kTag);
  file.write(std::as_bytes(std::span(prefix)));
  file.write(std::as_bytes(std::span(header)));
  file.write(bytes_of(contiguous(staged_on_host(tensor))));
  file.commit();
}

}  // namespace brim::io
