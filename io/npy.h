// npy files, NumPy's format for one array, read and written (versions 1.0 to 3.0 of
// numpy.lib.format). For several tensors, or a model, use io/safetensors.h. There are no objects,
// structures, strings, complex or big-endian numbers here: such files are refused by name.
//
// Files are untrusted: the header is read by a parser of its own, and its shape is held against the
// file's size before anything is allocated.
#pragma once

#include <string>

#include "brim/core/tensor.h"

namespace brim::io {

/// The array at `path`, on the CPU. One in Fortran order comes as a view with its strides, not
/// contiguous, without a second copy. Throws `FileError` naming the file for one that is missing,
/// no npy, cut short, too long, or of an element type that is not here; `memory::OutOfMemory`.
Tensor read_npy(const std::string& path);

/// Writes a tensor in row-major order, replacing what is there only when the file is whole. Throws
/// `FileError` where it cannot be written, `DtypeError` for bfloat16, which NumPy has not,
/// `DeviceError` for a tensor of the meta device.
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace brim::io
