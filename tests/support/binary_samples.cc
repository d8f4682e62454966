#include "brim/tests/support/binary_samples.h"

#include "brim/tests/support/broadcast_reference.h"

namespace brim::testing {
namespace {

/// `terms`: in the longest sum of a gradient.
struct Shapes {
  const char* name;
  Shape a, b;
  int64_t terms;
  std::vector<int> batched = {};
};

OpSample sample(const Shapes& shapes, const BinaryCase& of) {
  return {.name = shapes.name,
          .inputs = {uniform(shapes.a, -2, 2, RandomKey{1}, {.dtype = Dtype::float64}),
                     uniform(shapes.b, of.low, of.high, RandomKey{2}, {.dtype = Dtype::float64})},
          .run = [op = of.op](const Tensors& in) { return Tensors{op(in[0], in[1])}; },
          .reference =
              [formula = of.formula](const Tensors& in) {
                return Tensors{broadcast_reference(in[0], in[1], formula)};
              },
          .backward_reduction = shapes.terms,
          .batched = shapes.batched};
}

}  // namespace

std::vector<OpSample> binary_samples(const BinaryCase& of) {
  std::vector<OpSample> samples;
  for (const Shapes& shapes :
       {Shapes{"same shape", {2, 3, 5, 4}, {2, 3, 5, 4}, 1, {0, 1}},
        Shapes{"scalar", {3, 7}, {}, 21, {0}}, Shapes{"scalar first", {1}, {3, 7}, 21, {1}},
        Shapes{"per channel", {2, 3, 5, 4}, {4}, 30, {0}},
        Shapes{"per channel first", {1, 1, 3}, {11, 9, 3}, 99, {1}},
        Shapes{"many channels", {6, 70}, {70}, 6, {0}},
        Shapes{"per image and channel", {2, 3, 5, 4}, {2, 1, 1, 4}, 15, {0, 1}},
        Shapes{"per pixel", {2, 3, 5, 4}, {2, 3, 5, 1}, 4, {0, 1}},
        Shapes{"both repeated", {3, 1, 4}, {5, 1}, 12}, Shapes{"empty", {3, 0}, {3, 1}, 1}})
    samples.push_back(sample(shapes, of));
  return samples;
}

std::vector<ErrorCase> binary_errors(const std::function<Tensor(Tensor, Tensor)>& op) {
  return {{[=] {
             op(zeros({2, 3}), zeros({4}));
           },
           "shapes [2,3] and [4] do not broadcast"},
          {[=] { op(zeros({2}), zeros({2}, {.dtype = Dtype::float64})); },
           "expected one dtype, got float32 and float64"},
          {[=] { op(zeros({2}), zeros({2}, {.device = Device::meta()})); },
           "expected one device, got cpu and meta"},
          {[=] { op(arange(2), arange(2)); }, "expected a floating dtype, got int64"}};
}

}  // namespace brim::testing
