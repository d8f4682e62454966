#include "brim/core/widened.h"

#include <algorithm>

namespace brim {
namespace {

constexpr int64_t kBytesAtOnce = int64_t{2} << 20;  // of copies, unless a row has more

bool is_contiguous(const View& view) { return view.strides == contiguous_strides(view.shape); }

View rows_of(const View& view, int64_t begin, int64_t end, bool flat) {
  View rows = view;
  const int64_t row = flat ? 1 : view.numel() / view.shape[0];
  rows.data = static_cast<char*>(view.data) + begin * row * size_of(view.dtype);
  if (flat)
    rows.shape = {end - begin};
  else
    rows.shape[0] = end - begin;
  rows.strides = contiguous_strides(rows.shape);
  return rows;
}

}  // namespace

Widened::Widened(const KernelCall& call, Dtype low, bool updates, const ByRows& by_rows,
                 const ScratchOf& scratch_of)
    : call_(call), updates_(updates), flat_(by_rows.flat) {
  auto take = [low](std::span<const View> views, unsigned cut, std::vector<Buffer>& buffers) {
    for (size_t i = 0; i < views.size(); ++i)
      buffers.push_back({.low = views[i],
                         .is_low = views[i].present && views[i].dtype == low,
                         .is_cut = views[i].present && (cut >> i & 1) != 0});
  };
  take(call.in, by_rows.in, in_);
  take(call.out, by_rows.out, out_);
  if (can_cut(by_rows)) {
    const View& first = out_.front().low;
    rows_ = flat_ ? first.numel() : first.shape[0];
    step_ = rows_in_cache(rows_);
  } else {
    for (auto* buffers : {&in_, &out_})
      for (Buffer& buffer : *buffers) buffer.is_cut = false;
  }
  widened_ = place(nullptr, 0, step_);
  inner_ = scratch_of_slice(step_, scratch_of);
  if (rows_ % step_ > 0) inner_ = std::max(inner_, scratch_of_slice(rows_ % step_, scratch_of));
}

// All outputs, and what they are made from, have as many rows without gaps.
bool Widened::can_cut(const ByRows& by_rows) const {
  if (by_rows.out == 0 || !out_.front().is_cut) return false;
  const View& first = out_.front().low;
  if (first.shape.empty() || first.numel() == 0) return false;
  auto fits = [&](const Buffer& buffer) {
    if (!buffer.is_cut) return true;
    const View& view = buffer.low;
    return !view.shape.empty() && is_contiguous(view) &&
           (by_rows.flat ? view.numel() == first.numel() : view.shape[0] == first.shape[0]);
  };
  auto is_cut = [](const Buffer& buffer) { return buffer.is_cut || !buffer.low.present; };
  return std::ranges::all_of(in_, fits) && std::ranges::all_of(out_, fits) &&
         std::ranges::all_of(out_, is_cut);
}

int64_t Widened::rows_in_cache(int64_t most) const {
  int64_t bytes = 0;
  for (const auto* buffers : {&in_, &out_})
    for (const Buffer& buffer : *buffers)
      if (buffer.is_low && buffer.is_cut)
        bytes += buffer.low.numel() / most * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kBytesAtOnce / std::max<int64_t>(bytes, 1), 1, most);
}

int64_t Widened::place(void* scratch, int64_t begin, int64_t end) {
  ScratchCursor cursor(scratch);
  in_views_.clear();
  out_views_.clear();
  for (bool cut : {false, true})  // what is whole stays where it is
    for (auto* buffers : {&in_, &out_})
      for (Buffer& buffer : *buffers) {
        if (buffer.is_cut != cut) continue;
        buffer.wide = cut ? rows_of(buffer.low, begin, end, flat_) : buffer.low;
        if (!buffer.is_low) continue;
        // As far apart for a shorter slice.
        buffer.wide.data =
            cursor.take<float>(cut ? buffer.wide.numel() / std::max<int64_t>(end - begin, 1) * step_
                                   : buffer.wide.numel());
        buffer.wide.dtype = Dtype::float32;
        buffer.wide.strides = contiguous_strides(buffer.wide.shape);
      }
  for (const Buffer& buffer : in_) in_views_.push_back(buffer.wide);
  for (const Buffer& buffer : out_) out_views_.push_back(buffer.wide);
  return cursor.used();
}

KernelCall Widened::call_of_slice(void* scratch) {
  KernelCall call = call_;
  call.in = in_views_;
  call.out = out_views_;
  call.scratch = scratch;
  return call;
}

int64_t Widened::scratch_of_slice(int64_t rows, const ScratchOf& scratch_of) {
  place(nullptr, 0, rows);
  return scratch_of(call_of_slice(nullptr));
}

void Widened::run(void* scratch, const Convert& convert, const Run& run) {
  // Into the copies, or back: of the whole buffers, or of these rows of the others.
  int64_t begin = 0, end = step_;
  auto each = [&](std::vector<Buffer>& buffers, bool cut, bool back) {
    for (const Buffer& buffer : buffers) {
      if (!buffer.is_low || buffer.is_cut != cut) continue;
      const View low = cut ? rows_of(buffer.low, begin, end, flat_) : buffer.low;
      back ? convert(buffer.wide, low) : convert(low, buffer.wide);
    }
  };
  place(scratch, begin, end);
  each(in_, /*cut=*/false, /*back=*/false);
  if (updates_) each(out_, false, false);
  for (; begin < rows_; begin = end) {
    end = std::min(begin + step_, rows_);
    place(scratch, begin, end);
    each(in_, /*cut=*/true, /*back=*/false);
    if (updates_) each(out_, true, false);
    run(call_of_slice(static_cast<char*>(scratch) + widened_));
    each(out_, /*cut=*/true, /*back=*/true);
  }
  each(out_, /*cut=*/false, /*back=*/true);
}

}  // namespace brim
