// Storage, descriptor, strides, views, and the orders of axes.
#include <cmath>

#include "brim/core/tensor.h"
#include "brim/ops/permute.h"

using namespace brim;

namespace {

void views() {
  // [create]
  Tensor t = from_vector<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  check(t.shape() == Shape{2, 3}, "two rows of three");
  check(t.strides() == Strides{3, 1}, "three elements to the next row, one to the next column");
  check(t.storage()->bytes() == 64, "24 bytes, rounded up");
  // [/create]

  // [transpose]
  Tensor u = permute(t, {1, 0});
  check(u.storage() == t.storage(), "a view: no element was copied");
  check(u.shape() == Shape{3, 2} && u.strides() == Strides{1, 3}, "shape and strides swapped");
  check(u.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5}, "read in shape order");
  check(!u.is_contiguous() && contiguous(u).storage() != t.storage(), "to be dense, it must move");
  // [/transpose]

  // [layouts]
  Tensor row(t.storage(), {.shape = {3}, .strides = {1}, .offset = 3});
  Tensor column(t.storage(), {.shape = {2}, .strides = {3}, .offset = 1});
  Tensor repeated(t.storage(), {.shape = {4, 3}, .strides = {0, 1}, .offset = 0});
  check(row.to_vector<float>() == std::vector<float>{3, 4, 5}, "the second row");
  check(column.to_vector<float>() == std::vector<float>{1, 4}, "the second column");
  check(repeated.numel() == 12, "twelve elements over six numbers: what broadcasting does");
  // [/layouts]

  // [write]
  uint32_t before = t.storage()->version();
  fill(column, 9);
  check(t.to_vector<float>() == std::vector<float>{0, 9, 2, 3, 9, 5}, "all see the write");
  check(t.storage()->version() == before + 1, "and the storage counted it");
  // [/write]
}

void orders() {
  // [nhwc]
  Tensor nchw = convert_to(arange(2 * 3 * 4 * 5), {.dtype = Dtype::float32}).view_as({2, 3, 4, 5});
  Tensor nhwc = contiguous(permute(nchw, {0, 2, 3, 1}));
  check(nhwc.shape() == Shape{2, 4, 5, 3}, "[N,H,W,C]");
  check(nhwc.strides() == Strides{60, 15, 3, 1}, "the channels of a pixel lie side by side");
  // [/nhwc]
  int64_t n = 1, c = 2, h = 3, w = 4;
  check(nhwc.data<float>()[((n * 4 + h) * 5 + w) * 3 + c] ==
            nchw.data<float>()[((n * 3 + c) * 4 + h) * 5 + w],
        "the same element");
}

void dtypes() {
  // [dtypes]
  Tensor x = from_vector<float>({1.00390625f, 70000}, {2});  // 1 + 2^-8, and too much for float16
  Tensor b = convert_to(x, {.dtype = Dtype::bfloat16});
  Tensor h = convert_to(x, {.dtype = Dtype::float16});
  check(b.to_vector<float>() == std::vector<float>{1, 70144},
        "8 bits of precision, range of float");
  check(h.to_vector<float>() == std::vector<float>{1.00390625f, INFINITY}, "11 bits, up to 65504");
  // [/dtypes]
}

}  // namespace

int main() {
  views();
  orders();
  dtypes();
}
