// The error of a device that has no room, with the numbers one needs to act on it. It carries
// numbers and strings, never tensors: holding it keeps no device byte alive. Thrown by the account,
// and by `raise_library_shortage` for a library that gets no memory; a `TrainStep` undoes itself
// before it passes it on. Not for containers of the host, which throw `std::bad_alloc`.
// docs/out_of_memory.md reads a message line by line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brim/base/device.h"
#include "brim/base/error.h"
#include "brim/memory/category.h"
#include "brim/memory/live_buffers.h"
#include "brim/memory/section.h"
#include "brim/memory/site.h"
#include "brim/memory/source.h"

namespace brim::memory {

/// The state of an account when a request was refused. All in bytes.
struct Shortage {
  Device device;
  int64_t requested = 0;                ///< 0: a library failed to get memory of its own
  Category category = Category::other;  ///< what the request was for
  BufferShape shape;                    ///< the tensor that wanted it
  int64_t total = 0;                    ///< the device's capacity or cap
  int64_t live = 0;
  int64_t live_limit = Source::kUnlimited;  ///< that live bytes are held to (memory/reclaimer.h)
  int64_t cached = 0;                       ///< held by the planner, in pieces that did not serve
  int64_t fragmented = 0;
  int64_t free = 0;          ///< total - reserved
  int64_t largest_hole = 0;  ///< the longest piece of what is cached
  BytesByCategory by_category{};
  bool injected = false;  ///< refused by `fail_nth`, not for want of room

  Site site;                            ///< who asked: op, modules, source line, phase
  std::optional<Section> section = {};  ///< the part of a program that was running
  std::vector<BufferInfo> largest;      ///< the ten largest live buffers, the largest first
  /// Changes that were planned and found to fit; the account knows none, `train/` adds them.
  std::vector<std::string> remedies;
};

/// Throws `OutOfMemory` with `shortage` and the largest of `live`; with a plain message where the
/// program's own heap has no room for the details.
[[noreturn]] void raise_shortage(Shortage shortage, const LiveBuffers& live);

class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(Shortage shortage);
  const Shortage& shortage() const noexcept { return shortage_; }
  /// The same error, whose message ends with `remedies`.
  OutOfMemory with_remedies(std::vector<std::string> remedies) const;

 private:
  explicit OutOfMemory(const char* text) : Error("out of memory", text) {}
  OutOfMemory(const OutOfMemory& text, Shortage numbers) noexcept;
  friend void raise_shortage(Shortage shortage, const LiveBuffers& live);

  static const OutOfMemory* const plain_;  // made while there is a heap: copying it takes none
  Shortage shortage_;
};

/// The first line of the message of this shortage, without the tag.
std::string first_line(const Shortage& shortage);

}  // namespace brim::memory
