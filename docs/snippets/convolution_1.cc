// Convolution as a matrix product, written with ops that do not know it, against `conv2d`.
#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/memory/account.h"
#include "brim/ops/ops.h"

using namespace brim;

namespace {

constexpr TensorOptions kFloat64{.dtype = Dtype::float64};

/// Both were summed in float64, in different orders: 100 terms of size 1 differ by less than this.
bool agree(const Tensor& a, const Tensor& b) {
  std::vector<double> left = a.to_vector<double>(), right = b.to_vector<double>();
  return a.shape() == b.shape() && std::ranges::equal(left, right, [](double u, double v) {
           return std::abs(u - v) < 1e-12;
         });
}

// [windows]
/// x [N,H,W,C] to the matrix [N*P*Q, R*S*C] whose rows are windows of R x S pixels.
Tensor windows(Tensor x, Pair window, int64_t stride, int64_t padding) {
  x = pad(std::move(x), {{}, {padding, padding}, {padding, padding}, {}});
  int64_t p = (x.size(1) - window.h) / stride + 1, q = (x.size(2) - window.w) / stride + 1;
  Tensors taps;
  for (int64_t r = 0; r < window.h; ++r)
    for (int64_t s = 0; s < window.w; ++s) {
      Tensor rows = slice(x, 1, {.begin = r, .end = r + (p - 1) * stride + 1, .step = stride});
      taps.push_back(slice(rows, 2, {.begin = s, .end = s + (q - 1) * stride + 1, .step = stride}));
    }
  int64_t pixels = x.size(0) * p * q, values = window.h * window.w * x.size(3);
  return reshape(concat(std::move(taps), 3), {pixels, values});
}
// [/windows]

Tensor flip(const Tensor& x, int axis) {
  Tensors parts;
  for (int64_t i = x.size(axis); i-- > 0;)
    parts.push_back(slice(x, axis, {.begin = i, .end = i + 1}));
  return concat(std::move(parts), axis);
}

void drawn() {
  Tensor x = arange(16, kFloat64);
  Tensor rows = windows(reshape(x, {1, 4, 4, 1}), {3, 3}, /*stride=*/1, /*padding=*/0);
  check(rows.shape() == Shape{4, 9}, "four windows of nine pixels");
  check(slice(rows, 0, {.begin = 1, .end = 2}).to_vector<int>() ==
            std::vector<int>{1, 2, 3, 5, 6, 7, 9, 10, 11},
        "the second row, as drawn");
}

void fewer_multiplications() {
  const double d[] = {0.5, -2, 3, 0.25}, g[] = {-1, 0.75, 2};
  // [fewer]
  const double m0 = (d[0] - d[2]) * g[0];
  const double m1 = (d[1] + d[2]) * (g[0] + g[1] + g[2]) / 2;
  const double m2 = (d[2] - d[1]) * (g[0] - g[1] + g[2]) / 2;
  const double m3 = (d[1] - d[3]) * g[2];
  const double y0 = m0 + m1 + m2, y1 = m1 - m2 - m3;
  // [/fewer]
  check(y0 == d[0] * g[0] + d[1] * g[1] + d[2] * g[2], "all of them have few bits");
  check(y1 == d[1] * g[0] + d[2] * g[1] + d[3] * g[2], "the next output");
}

void product() {
  // [product]
  Tensor x = uniform({2, 7, 6, 5}, -1, 1, RandomKey{1}, kFloat64);
  Tensor weight = uniform({8, 3, 3, 5}, -1, 1, RandomKey{2}, kFloat64);  // [K,R,S,C]
  Tensor rows = windows(x, {3, 3}, /*stride=*/2, /*padding=*/1);         // [2*4*3, 45]
  Tensor y = linear(rows, reshape(weight, {8, 45}), /*bias=*/{});        // rows * weight^T
  Tensor expected = conv2d(x, weight, {}, {.stride = 2, .padding = 1});
  check(agree(reshape(y, {2, 4, 3, 8}), expected), "the same");
  // [/product]
}

void pointwise() {
  // [pointwise]
  Tensor x = uniform({2, 7, 6, 5}, -1, 1, RandomKey{1}, kFloat64);
  Tensor weight = uniform({8, 1, 1, 5}, -1, 1, RandomKey{2}, kFloat64);
  check(agree(linear(x, reshape(weight, {8, 5}), {}), conv2d(x, weight, {})), "no windows to cut");
  // [/pointwise]
}

void gradients() {
  // [gradients]
  Tensor x = uniform({2, 7, 6, 5}, -1, 1, RandomKey{1}, kFloat64).set_requires_grad();
  Tensor weight = uniform({8, 3, 3, 5}, -1, 1, RandomKey{2}, kFloat64).set_requires_grad();
  Tensor dy = uniform({2, 4, 3, 8}, -1, 1, RandomKey{3}, kFloat64);
  backward(conv2d(x, weight, {}, {.stride = 2, .padding = 1}), {.grad = dy});

  Tensor dy_rows = reshape(dy, {2 * 4 * 3, 8});
  Tensor rows = windows(x.detach(), {3, 3}, /*stride=*/2, /*padding=*/1);
  Tensor dweight = matmul(permute(dy_rows, {1, 0}), rows);  // dy^T * rows
  check(agree(reshape(dweight, {8, 3, 3, 5}), weight.grad()), "gradient of the weight");
  // [/gradients]

  // [data]
  Tensor gaps = pad(reshape(dy, {2, 4, 1, 3, 1, 8}), {{}, {}, {0, 1}, {}, {0, 1}, {}});
  gaps = slice(reshape(gaps, {2, 8, 6, 8}), 1, {.end = 7});  // a zero behind each pixel of dy
  Tensor turned = permute(flip(flip(weight.detach(), 1), 2), {3, 1, 2, 0});  // [C,R,S,K]
  check(agree(conv2d(gaps, turned, {}, {.padding = 1}), x.grad()), "gradient of x");
  // [/data]
}

}  // namespace

int main() {
  drawn();
  product();
  fewer_multiplications();
  pointwise();
  gradients();
}
