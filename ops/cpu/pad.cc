#include "brim/ops/pad.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that repay a second thread

// y as rows that end with the last axis that has a border; axes behind it are part of the row.
struct Rows {
  int outer = 0;                         // axes in front of the row
  bool all_have_source = true;           // no border along those
  int64_t count = 1;                     // rows of y
  int64_t from = 0, to = 0, before = 0;  // elements of a row of x, of y, and in front
};

Rows rows_of(const View& x, const View& y, const kernel::PadAttributes& attributes) {
  Rows rows{.from = x.numel(), .to = y.numel()};
  int64_t inner = 1;
  for (int axis = y.shape.size() - 1; axis >= 0; --axis) {
    if (x.shape[axis] != y.shape[axis]) {
      rows.outer = axis;
      rows.from = x.shape[axis] * inner;
      rows.to = y.shape[axis] * inner;
      rows.before = attributes.before[static_cast<size_t>(axis)] * inner;
      break;
    }
    inner *= y.shape[axis];
  }
  for (int axis = 0; axis < rows.outer; ++axis) {
    rows.count *= y.shape[axis];
    rows.all_have_source &= x.shape[axis] == y.shape[axis];
  }
  return rows;
}

// The row of x behind row `index` of y, or -1 where there is border alone.
int64_t source_row(int64_t index, const Rows& rows, const View& x, const View& y,
                   const kernel::PadAttributes& attributes) {
  if (rows.all_have_source) return index;
  int64_t source = 0, stride = 1;
  for (int axis = rows.outer - 1; axis >= 0; --axis) {
    int64_t i = index % y.shape[axis] - attributes.before[static_cast<size_t>(axis)];
    if (i < 0 || i >= x.shape[axis]) return -1;
    index /= y.shape[axis];
    source += i * stride;
    stride *= x.shape[axis];
  }
  return source;
}

template <class T>
void pad_rows(const View& x, const View& y, const kernel::PadAttributes& attributes) {
  if (y.numel() == 0) return;
  Rows rows = rows_of(x, y, attributes);
  T value = convert<T>(attributes.value);
  parallel_for(rows.count, std::max<int64_t>(kGrain / rows.to, 1), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* to = y.as<T>() + r * rows.to;
      int64_t source = source_row(r, rows, x, y, attributes);
      if (source < 0) {
        std::fill_n(to, rows.to, value);
        continue;
      }
      to = std::fill_n(to, rows.before, value);
      to = std::copy_n(x.as<T>() + source * rows.from, rows.from, to);
      std::fill_n(to, rows.to - rows.before - rows.from, value);
    }
  });
}

void pad_kernel(const KernelCall& call, const kernel::PadAttributes& attributes) {
  visit_dtype(call.out[0].dtype,
              [&]<class T>() { pad_rows<T>(call.in[0], call.out[0], attributes); });
}

}  // namespace

void register_pad() {
  // It moves values and computes none: every dtype as it is.
  for (int i = 0; i < kDtypes; ++i)
    register_kernel(kernel::pad, DeviceType::cpu, static_cast<Dtype>(i), pad_kernel);
}

}  // namespace brim::cpu
