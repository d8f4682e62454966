// Names, results and gradients of U-Net against the same network written in PyTorch
// (make_names.py). tests/train/unet_test.cc trains it.
#include "brim/nn/models/unet.h"

#include <doctest/doctest.h>

#include "brim/nn/creation.h"
#include "brim/tests/nn/model_golden.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("unet: results and gradients are PyTorch's, also at sizes that it must pad") {
  for (bool bilinear : {false, true}) {
    CAPTURE(bilinear);
    Golden golden = read_golden(bilinear ? "unet_bilinear" : "unet");
    auto model =
        nn::make<nn::UNet>({.dtype = Dtype::float64},
                           nn::UNetOptions{.classes = 3, .channels = 4, .bilinear = bilinear});
    CHECK(listed(model->named_parameters()) == golden.parameters);
    CHECK(listed(model->named_buffers()) == golden.buffers);
    for (const auto& [size, shape] : golden.outputs) {
      nn::MetaScope on_meta(*model);
      Tensor x = empty({2, size, size, 3}, {.dtype = Dtype::float64, .device = Device::meta()});
      CHECK(to_string((*model)(std::move(x)).shape()) == shape);
    }
    check_results(*model, golden);
  }
}

TEST_CASE("unet: parameter counts at the usual width") {
  TensorOptions meta{.device = Device::meta()};
  CHECK(nn::make<nn::UNet>(meta)->parameter_count() == 31037698);
  CHECK(nn::make<nn::UNet>(meta, nn::UNetOptions{.bilinear = true})->parameter_count() == 17263042);
}

TEST_CASE("unet: other depths and channels; images that are too small are refused") {
  nn::CreationScope on_meta({.device = Device::meta()});
  nn::UNet one({.classes = 5, .in = 1, .channels = 6, .depth = 1});
  CHECK(one(empty({2, 7, 2, 1}, {.device = Device::meta()})).shape() == Shape{2, 7, 2, 5});
  CHECK_THROWS_AS(one(empty({2, 7, 1, 1}, {.device = Device::meta()})), ShapeError);
  CHECK(error_text<ValueError>([] { nn::UNet net({.depth = 0}); }) ==
        "UNet: expected a depth of at least 1, got 0");
}
