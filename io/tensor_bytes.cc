#include "brim/io/tensor_bytes.h"

#include <algorithm>
#include <bit>

namespace brim::io {

static_assert(std::endian::native == std::endian::little, "files are read without swapping bytes");

std::optional<int64_t> byte_count(const Shape& shape, Dtype dtype) {
  int64_t bytes = size_of(dtype);
  for (int64_t n : shape)
    if (n < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes)) return {};
  return std::ranges::find(shape, 0) == shape.end() ? bytes : 0;
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  check(tensor.is_contiguous() && tensor.device().is_cpu(), "bytes lie in one piece on the CPU");
  return {static_cast<std::byte*>(tensor.data()),
          static_cast<size_t>(tensor.numel() * size_of(tensor.dtype()))};
}

void read_elements(const InputFile& file, int64_t offset, std::string_view what, const Tensor& to) {
  std::span<std::byte> bytes = bytes_of(to);
  to.storage()->note_write(file.tag());
  file.read(offset, bytes);
  if (to.dtype() != Dtype::boolean) return;
  bool valid = std::ranges::all_of(bytes, [](std::byte byte) { return byte <= std::byte{1}; });
  if (valid) return;
  std::ranges::fill(bytes, std::byte{0});  // no bool may hold anything else
  raise<FileError>(file.tag(), "'{}': {} has a byte that is neither 0 nor 1", file.path(), what);
}

}  // namespace brim::io
