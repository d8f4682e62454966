#include "brim/ops/interpolate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

struct Weight {
  int64_t at;
  double weight;
};

// Of output i along one axis, by the formulas in ops/interpolate.h.
std::vector<Weight> weights(const InterpolateOptions& o, int64_t i, int64_t in, int64_t out,
                            double scale) {
  double r = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out), s = 0;
  if (o.mode == InterpolateMode::nearest)
    // A hair more, where the quotient rounds below a whole number.
    return {{std::min(static_cast<int64_t>(std::floor(i * r + 1e-9)), in - 1), 1}};
  if (o.align_corners)
    s = out > 1 ? static_cast<double>(i * (in - 1)) / static_cast<double>(out - 1) : 0;
  else
    s = std::max((i + 0.5) * r - 0.5, 0.0);
  int64_t low = std::min(static_cast<int64_t>(s), in - 1), high = std::min(low + 1, in - 1);
  if (low == high) return {{low, 1}};
  double part = s - static_cast<double>(low);
  return {{low, 1 - part}, {high, part}};
}

Tensors reference(const Tensors& in, const InterpolateOptions& o) {
  const Shape& shape = in[0].shape();
  bool sized = o.size.h > 0;
  int64_t out_h = sized ? o.size.h : static_cast<int64_t>(shape[1] * o.scale.h);
  int64_t out_w = sized ? o.size.w : static_cast<int64_t>(shape[2] * o.scale.w);
  std::vector<double> x = in[0].to_vector<double>(), y;
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t i = 0; i < out_h; ++i)
      for (int64_t j = 0; j < out_w; ++j)
        for (int64_t c = 0; c < shape[3]; ++c) {
          double sum = 0;
          for (const Weight& row : weights(o, i, shape[1], out_h, o.scale.h))
            for (const Weight& column : weights(o, j, shape[2], out_w, o.scale.w))
              if (row.weight != 0 && column.weight != 0)
                sum += row.weight * column.weight *
                       x[static_cast<size_t>(
                           ((n * shape[1] + row.at) * shape[2] + column.at) * shape[3] + c)];
          y.push_back(sum);
        }
  return {from_vector(y, {shape[0], out_h, out_w, shape[3]})};
}

OpSample sample(const char* name, const Shape& shape, const InterpolateOptions& options) {
  bool sized = options.size.h > 0;
  double up_h = sized ? static_cast<double>(options.size.h) / shape[1] : options.scale.h;
  double up_w = sized ? static_cast<double>(options.size.w) / shape[2] : options.scale.w;
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{interpolate(in[0], options)}; },
          .reference = [=](const Tensors& in) { return reference(in, options); },
          .reduction = options.mode == InterpolateMode::bilinear ? 4 : 1,
          .backward_reduction = static_cast<int64_t>((2 * up_h + 2) * (2 * up_w + 2)),
          .batched = {0}};
}

constexpr auto kBilinear = InterpolateMode::bilinear;

std::vector<float> row(const std::vector<float>& values, const InterpolateOptions& options) {
  return interpolate(from_vector(values, {1, 1, static_cast<int64_t>(values.size()), 1}), options)
      .to_vector<float>();
}

}  // namespace

TEST_CASE("interpolate: spec") {
  Tensor x = zeros({1, 4, 4, 2});
  check_op(
      {.op = "interpolate",
       .samples =
           {sample("nearest, twice", {2, 3, 4, 5}, {.scale = 2}),
            sample("nearest, to a size", {2, 3, 5, 70}, {.size = {7, 4}}),
            sample("nearest, smaller", {1, 9, 8, 3}, {.scale = {0.5, 0.3}}),
            sample("nearest, by a fraction", {1, 4, 5, 2}, {.scale = {1.7, 2.5}}),
            sample("bilinear, twice", {2, 3, 4, 5}, {.scale = 2, .mode = kBilinear}),
            sample("bilinear, to a size", {2, 3, 5, 70}, {.size = {7, 4}, .mode = kBilinear}),
            sample("bilinear, smaller", {1, 9, 8, 3}, {.size = {4, 3}, .mode = kBilinear}),
            sample("bilinear, much smaller", {1, 12, 9, 2}, {.scale = 0.25, .mode = kBilinear}),
            sample("bilinear, by a fraction", {1, 4, 5, 2},
                   {.scale = {1.7, 2.5}, .mode = kBilinear}),
            sample("bilinear, the same size", {1, 4, 3, 2}, {.size = {4, 3}, .mode = kBilinear}),
            sample("corners, twice", {2, 3, 4, 5},
                   {.scale = 2, .mode = kBilinear, .align_corners = true}),
            sample("corners, to a size", {1, 6, 5, 3},
                   {.size = {4, 9}, .mode = kBilinear, .align_corners = true}),
            sample("corners, to one row", {1, 6, 5, 3},
                   {.size = {1, 9}, .mode = kBilinear, .align_corners = true}),
            sample("from one pixel", {2, 1, 1, 3}, {.size = {3, 4}, .mode = kBilinear})},
       .errors = {{[] {
                     interpolate(zeros({4, 4, 2}), {.scale = 2});
                   },
                   "interpolate: expected an input [N,H,W,C] with at least one pixel, got [4,4,2]"},
                  {[] {
                     interpolate(zeros({1, 0, 4, 2}), {.scale = 2});
                   },
                   "with at least one pixel, got [1,0,4,2]"},
                  {[=] { interpolate(x, {}); },
                   "interpolate: expected a size or a scale, got size [0,0] and scale [0,0]"},
                  {[=] { interpolate(x, {.size = 3, .scale = 2}); },
                   "interpolate: expected a size or a scale, got size [3,3] and scale [2,2]"},
                  {[=] {
                     interpolate(x, {.size = {3, -1}});
                   },
                   "interpolate: expected a size of at least 1, got [3,-1]"},
                  {[=] { interpolate(x, {.scale = 0.2}); },
                   "interpolate: expected a scale that gives at least one pixel, got 0.2 for 4"},
                  {[=] { interpolate(x, {.scale = NAN}); }, "gives at least one pixel, got nan"},
                  {[=] {
                     interpolate(x, {.scale = {2, INFINITY}});
                   },
                   "gives at least one pixel, got inf"},
                  {[=] { interpolate(x, {.scale = 2, .align_corners = true}); },
                   "interpolate: expected align_corners with bilinear alone"},
                  {[] {
                     interpolate(zeros({1, 3, 3, 2}, {.dtype = Dtype::uint8}), {.scale = 2});
                   },
                   "interpolate: expected a floating dtype, got uint8"}}});
}

// Worked out by hand from PyTorch's formulas.
TEST_CASE("interpolate: pixels lie where PyTorch has them") {
  CHECK(row({0, 4}, {.size = {1, 4}}) == std::vector<float>{0, 0, 4, 4});
  CHECK(row({0, 4}, {.size = {1, 4}, .mode = kBilinear}) == std::vector<float>{0, 1, 3, 4});
  CHECK(row({0, 6}, {.size = {1, 4}, .mode = kBilinear, .align_corners = true}) ==
        std::vector<float>{0, 2, 4, 6});
  CHECK(row({0, 1, 2, 3}, {.size = {1, 2}, .mode = kBilinear}) == std::vector<float>{0.5, 2.5});
  // The scale counts, not the size that is left of it: 3 * 1.5 = 4.5 gives 4 pixels, 2/3 apart.
  CHECK(row({0, 6, 12}, {.scale = {1, 1.5}, .mode = kBilinear}) == std::vector<float>{0, 3, 7, 11});
}

TEST_CASE("interpolate: the nearest pixel is exact where the position is a whole number") {
  // 49 * (2.0 / 98) rounds below 1.
  std::vector<float> y = row({0, 1}, {.size = {1, 98}});
  CHECK(std::ranges::count(y, 0.0f) == 49);
}

TEST_CASE("interpolate: what has no weight is not read") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(row({1, inf}, {.size = {1, 3}, .mode = kBilinear, .align_corners = true}) ==
        std::vector<float>{1, inf, inf});
  CHECK(row({1, NAN, 3}, {.size = {1, 2}})[0] == 1);
}

}  // namespace brim
