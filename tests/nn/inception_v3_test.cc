// What Inception V3 has beside its logits: an auxiliary classifier, in training, where it is asked
// for. models_test.cc compares the rest.
#include "brim/nn/models/inception_v3.h"

#include <doctest/doctest.h>

#include "brim/nn/creation.h"
#include "brim/nn/weights.h"
#include "brim/ops/add.h"
#include "brim/ops/mul.h"
#include "brim/tests/nn/model_golden.h"

using namespace brim;
using namespace brim::testing;

namespace {

Tensor meta_images(int64_t size) { return empty({2, size, size, 3}, {.device = Device::meta()}); }

}  // namespace

TEST_CASE("inception_v3: there is an auxiliary classifier where it is asked for") {
  Golden golden = read_golden("inception_v3_auxiliary");
  nn::CreationScope on_meta({.device = Device::meta()});
  nn::InceptionV3 with({.auxiliary = true}), without;
  CHECK(listed(with.named_parameters()) == golden.parameters);
  CHECK(listed(with.named_buffers()) == golden.buffers);
  CHECK(with.parameter_count() == 27161264);  // as torchvision states
  CHECK(nn::classifier_head(with) == "fc");

  Tensor x = meta_images(299),
         labels = empty({2}, {.dtype = Dtype::int64, .device = Device::meta()});
  CHECK_FALSE(without.scores(x).auxiliary.defined());
  auto [logits, auxiliary] = with.scores(x);
  CHECK(logits.shape() == Shape{2, 1000});
  CHECK(auxiliary.shape() == Shape{2, 1000});
  backward(add(cross_entropy(logits, labels),
               mul(cross_entropy(auxiliary, labels), full({}, 0.4, {.device = Device::meta()}))));
  for (const auto& [parameter, tensor] : with.named_parameters()) {
    CAPTURE(parameter);
    CHECK(tensor.grad().defined());
  }
  CHECK(with(x).shape() == Shape{2, 1000});
  CHECK_THROWS_AS(with.scores(meta_images(267)), ShapeError);
  with.eval();
  CHECK_FALSE(with.scores(x).auxiliary.defined());
}

TEST_CASE("inception_v3: the auxiliary classifier gives torchvision's results") {
  Golden golden = read_golden("inception_v3_auxiliary");
  nn::CreationScope in_double({.dtype = Dtype::float64});
  nn::InceptionV3 model({.dropout = 0, .auxiliary = true});
  set_numbers(model);
  autograd::NoGradScope no_grad;
  Tensor auxiliary = model.scores(formula_images(golden.small_size())).auxiliary;
  check_near(auxiliary.to_vector<double>(), golden.logits, kResultBound);
}

TEST_CASE("inception_v3: images of 75 pixels and more") {
  nn::CreationScope on_meta({.device = Device::meta()});
  nn::InceptionV3 model;
  CHECK(model(meta_images(75)).shape() == Shape{2, 1000});
  CHECK_THROWS_AS(model(meta_images(74)), ShapeError);
}
