// safetensors files, read and written: named tensors with a header of JSON, the format in which
// models travel (github.com/huggingface/safetensors). Reading opens the header alone; tensors are
// then read one by one into their own bytes. For a model's weights use nn/weights.h, which knows
// names and layouts of PyTorch; for a single array io/npy.h.
//
// Files are untrusted: lengths, names, dtypes, shapes and offsets are checked before anything is
// taken for them. A tensor takes the bytes that the file has for it; opening takes up to six times
// the header's length, which is at most 100 MB, and 32 MiB: no matter what the file says.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brim/core/tensor.h"
#include "brim/io/input_file.h"

namespace brim::io {

/// What a file says of itself: strings by name.
using Metadata = std::map<std::string, std::string>;

/// One tensor of a file.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::float32;
  Shape shape;
  int64_t begin = 0, end = 0;  ///< its bytes, counted from the end of the header
};

class SafetensorsFile {
 public:
  /// Reads the header. Throws `FileError` naming the file, and where it can the tensor, for one
  /// that is missing, cut short, or breaks the format: a header beyond the file, beyond 100 MB or
  /// not JSON, names twice or unprintable, unknown dtypes, more than eight axes, offsets out of
  /// range or at odds with the shape, bytes that belong to two tensors or to none.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  /// By name.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }

  /// The tensor of that name, or null.
  const TensorInfo* find(std::string_view name) const;
  /// Throws `ValueError` with the nearest name where there is none.
  const TensorInfo& info(std::string_view name) const;

  /// A new tensor on the CPU. Throws `FileError` where the file was cut short since it was opened,
  /// `memory::OutOfMemory`, and what `info` throws.
  Tensor read(std::string_view name) const;
  /// Into a tensor, wherever it is, converting where its dtype is another; straight into its bytes
  /// where that is the same, it is contiguous and on the CPU. Throws `ShapeError` for another
  /// shape, before anything is written, and what `read` throws.
  void read_into(std::string_view name, const Tensor& to) const;

 private:
  InputFile file_;
  int64_t data_offset_ = 0;
  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
};

/// A tensor and its name in a file.
struct NamedBytes {
  std::string name;
  Tensor tensor;
};

/// Writes a file, replacing what is there only when it is whole. The same tensors give the same
/// bytes in whatever order they come: elements of 8 bytes first, then 4, 2 and 1, by name among
/// themselves, so that all are aligned. Throws `FileError` where it cannot be written, `ValueError`
/// for a name that is given twice, is unprintable, not UTF-8 or "__metadata__", and for more than
/// 100,000 tensors, 10,000 entries of metadata or 100 MB of header, which no reader takes;
/// `DeviceError` for a tensor of the meta device. What is not UTF-8 in strings of the metadata,
/// such as paths, is escaped (base/utf8.h).
void write_safetensors(const std::string& path, std::span<const NamedBytes> tensors,
                       const Metadata& metadata = {});

/// Throws the `ValueError` that `write_safetensors` would throw for it: names that are unprintable,
/// too long or not UTF-8, too much of both. For what is known long before.
void check_metadata(const Metadata& metadata);

}  // namespace brim::io
