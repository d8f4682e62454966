// A trace as JSON: to keep it, or to look into it with other programs. Text and places are written
// once and referred to by number. For the lifetimes alone, as packers want them, see
// memory/plan/packing_csv.h.
//
//   {"format": "brim trace", "version": 1, "end": 4,
//    "strings": ["", "conv2d", "layer1.0.conv1", "resnet.cc", "float32 [8,56,56,64]"],
//    "origins": [[op, module, file, line, phase], ..],
//    "buffers": [[bytes, category, shape, origin, run, death, last_use], ..],
//    "ops": [[origin, begin, end, [inputs], [outputs], flops, bytes_moved, begin_seconds,
//             end_seconds], ..],
//    "sections": [[kind, samples, begin, end, step], ..]}
//
// op, module, file and shape are numbers of strings, origin that of an origin, inputs and outputs
// those of buffers. Phase, category and kind are written out: "forward", "activations",
// "first micro-step". Buffer i was born at time i.
#pragma once

#include <string>
#include <string_view>

#include "brim/memory/trace.h"

namespace brim::memory {

/// Throws `ValueError` for numbers that JSON does not have and for text of more than 1,024 bytes.
/// Bytes that are not UTF-8 are escaped (base/utf8.h).
std::string to_json(const Trace& trace);

/// The same trace again, to the bit. `text` may come from anywhere: throws `FileError` naming the
/// first row that is wrong.
Trace trace_from_json(std::string_view text);

}  // namespace brim::memory
