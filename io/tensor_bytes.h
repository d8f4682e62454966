// Between tensors and the bytes of files: row-major, little-endian, without gaps. What the formats
// of this folder share; programs call `SafetensorsFile` and `read_npy`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "brim/core/tensor.h"
#include "brim/io/input_file.h"

namespace brim::io {

/// Bytes of a tensor that a file states; nothing where they are beyond 2^63 - 1. Sizes of 0 count
/// as 1 for that, since strides are products of the others.
std::optional<int64_t> byte_count(const Shape& shape, Dtype dtype);

/// The elements of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of(const Tensor& tensor);

/// Fills a contiguous tensor on the CPU with the file's bytes from `offset` on. Throws `FileError`
/// where the file ends before, or where a bool, whose tensor is called `what` then, is neither 0
/// nor 1.
void read_elements(const InputFile& file, int64_t offset, std::string_view what, const Tensor& to);

}  // namespace brim::io
