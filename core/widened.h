// How halves run through a float32 kernel: copies of them in scratch, as float32, for the time of a
// launch. Where the kernel works by rows, of so many rows at a time that they stay in the caches,
// and the scratch is small. Internal to core/launch.h.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "brim/core/launch.h"

namespace brim {

class Widened {
 public:
  using ScratchOf = std::function<int64_t(const KernelCall&)>;
  using Run = std::function<void(const KernelCall&)>;
  using Convert = std::function<void(const View& from, const View& to)>;

  /// Of a launch for halves of `low`; `scratch_of` is what the float32 kernel asks for.
  Widened(const KernelCall& call, Dtype low, bool updates, const ByRows& by_rows,
          const ScratchOf& scratch_of);
  int64_t scratch_bytes() const { return widened_ + inner_; }
  /// Runs the float32 kernel, as often as there are slices.
  void run(void* scratch, const Convert& convert, const Run& run);

 private:
  struct Buffer {
    View low, wide;
    bool is_low = false, is_cut = false;
  };
  bool can_cut(const ByRows& by_rows) const;
  int64_t rows_in_cache(int64_t most) const;
  /// Views of rows [begin, end); returns the bytes of all copies.
  int64_t place(void* scratch, int64_t begin, int64_t end);
  KernelCall call_of_slice(void* scratch);
  int64_t scratch_of_slice(int64_t rows, const ScratchOf& scratch_of);

  KernelCall call_;
  bool updates_, flat_;
  std::vector<Buffer> in_, out_;
  std::vector<View> in_views_, out_views_;
  int64_t rows_ = 1, step_ = 1;
  int64_t widened_ = 0, inner_ = 0;
};

}  // namespace brim
