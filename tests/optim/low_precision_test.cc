// Parameters, state and gradients of bfloat16: stochastic rounding is right on average and the same
// in every run; all else of an update is what it is in float32.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/base/parallel.h"
#include "brim/nn/creation.h"
#include "brim/nn/layers.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/optim/sgd.h"
#include "brim/optim/stochastic_rounding.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::optim;

namespace {

// Several threads, that begin within a word of random bits, and a stretch that is not whole.
constexpr int64_t kSize = 3 * 16384 + 3;

float rounded(float value, uint16_t random) {
  return static_cast<float>(round_stochastically(value, random));
}

Tensor parameter_of(const Tensor& values, Dtype dtype) {
  Tensor parameter = clone(convert_to(values, {.dtype = dtype}));
  return parameter.set_requires_grad();
}

Tensor random_values(uint64_t seed, float scale = 1) {
  return uniform({kSize}, -scale, scale, RandomKey{seed});
}

/// One parameter and its optimizer, with gradients that follow from the update.
template <class O, class Options>
struct Walk {
  Walk(Dtype dtype, const Options& options)
      : parameter(parameter_of(random_values(1), dtype)), optimizer({{"p", parameter}}, options) {}
  void step(Dtype gradient = Dtype::float32) {
    const auto seed = static_cast<uint64_t>(optimizer.steps() + 7);
    parameter.set_grad(convert_to(random_values(seed, 0.1f), {.dtype = gradient}));
    optimizer.step(0.05);
  }
  std::vector<std::vector<float>> bits() const {
    std::vector<std::vector<float>> all{parameter.template to_vector<float>()};
    for (const nn::NamedTensor& state : optimizer.named_state())
      all.push_back(state.tensor.template to_vector<float>());
    return all;
  }
  Tensor parameter;
  O optimizer;
};
using SgdWalk = Walk<Sgd, SgdOptions>;
using AdamWWalk = Walk<AdamW, AdamWOptions>;

const SgdOptions kSgd{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
const SgdOptions kLowSgd{
    .momentum = 0.9, .nesterov = true, .weight_decay = 0.01, .state = Dtype::bfloat16, .seed = 3};
const AdamWOptions kLowAdamW{.state = Dtype::bfloat16, .seed = 3};

/// What rounding element by element makes of the values.
std::vector<float> rounded_all(const std::vector<float>& values, RandomKey key, uint64_t update) {
  const RoundingStream stream{key, update};
  std::vector<float> all;
  for (size_t i = 0; i < values.size(); ++i) all.push_back(rounded(values[i], stream.bits(i)));
  return all;
}

RandomKey key_of(uint64_t seed, const char* what) {
  return derive(derive(RandomKey{seed}, what), "p");
}

}  // namespace

TEST_CASE("of all 65,536 random words, as many round up as the number is near to the upper") {
  for (float value : {1.003f, -1.003f, 3.7e-5f, -2.99f, 1e30f, 1e-40f}) {
    CAPTURE(value);
    const auto below = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFF0000u);
    double sum = 0;
    for (uint32_t random = 0; random < 65536; ++random)
      sum += rounded(value, static_cast<uint16_t>(random));
    // Exactly: each word adds a 65,536th of the distance, or nothing.
    CHECK(sum / 65536 == doctest::Approx(static_cast<double>(value)).epsilon(1e-9));
    CHECK(std::abs(rounded(value, 0)) == std::abs(below));
  }
}

TEST_CASE("what bfloat16 has stays, infinities and NaN among it") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float value : {0.0f, 1.0f, -1.5f, 0x1p-133f, infinity, -infinity})
    for (uint16_t random : {uint16_t{0}, uint16_t{1}, uint16_t{65535}}) {
      CAPTURE(value);
      CHECK(rounded(value, random) == value);
    }
  for (uint16_t random : {uint16_t{0}, uint16_t{65535}})
    CHECK(std::isnan(rounded(std::bit_cast<float>(0x7F800001u), random)));
}

TEST_CASE("SGD with state in bfloat16 is SGD, and v rounded after each update") {
  SgdWalk low(Dtype::float32, kLowSgd), wide(Dtype::float32, kSgd);
  for (uint64_t update = 1; update <= 3; ++update) {
    // The wide one goes on from what the low one has.
    copy_into(wide.parameter, low.parameter);
    copy_into(wide.optimizer.named_state()[0].tensor, low.optimizer.named_state()[0].tensor);
    low.step();
    wide.step();
    CHECK(low.bits()[0] == wide.bits()[0]);
    CHECK(low.bits()[1] == rounded_all(wide.bits()[1], key_of(3, "momentum"), update));
  }
  CHECK(low.optimizer.named_state()[0].tensor.dtype() == Dtype::bfloat16);
}

TEST_CASE("AdamW with state and parameters in bfloat16 is AdamW, rounded after each update") {
  AdamWWalk low(Dtype::bfloat16, kLowAdamW), wide(Dtype::float32, {});
  const char* const names[] = {"parameter", "exp_avg", "exp_avg_sq"};
  for (uint64_t update = 1; update <= 3; ++update) {
    copy_into(wide.parameter, low.parameter);
    for (size_t i = 0; i < 2; ++i)
      copy_into(wide.optimizer.named_state()[i].tensor, low.optimizer.named_state()[i].tensor);
    low.step(Dtype::bfloat16);
    wide.step(Dtype::bfloat16);  // of a float32 parameter too
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(names[i]);
      CHECK(low.bits()[i] == rounded_all(wide.bits()[i], key_of(3, names[i]), update));
    }
  }
}

TEST_CASE("a gradient in bfloat16 is the same number in float32") {
  for (double momentum : {0.0, 0.9}) {
    SgdWalk low(Dtype::float32, {.momentum = momentum}),
        wide(Dtype::float32, {.momentum = momentum});
    const Tensor gradient = convert_to(random_values(9), {.dtype = Dtype::bfloat16});
    low.parameter.set_grad(gradient);
    wide.parameter.set_grad(convert_to(gradient, {.dtype = Dtype::float32}));
    low.optimizer.step({.rate = 0.1, .loss_scale = 4, .clip = {.value = 0.1}});
    wide.optimizer.step({.rate = 0.1, .loss_scale = 4, .clip = {.value = 0.1}});
    // Sums of the same squares, in another order.
    CHECK(*low.optimizer.gradient_norm() ==
          doctest::Approx(*wide.optimizer.gradient_norm()).epsilon(1e-12));
    CHECK(low.bits() == wide.bits());
  }
}

TEST_CASE("updates too small for bfloat16 add up, where rounding to nearest would stand still") {
  Tensor parameter = ones({4096}, {.dtype = Dtype::bfloat16});
  parameter.set_requires_grad();
  Sgd sgd({{"p", parameter}}, {.seed = 1});
  for (int i = 0; i < 100; ++i) {
    parameter.set_grad(full({4096}, -1, {.dtype = Dtype::bfloat16}));
    sgd.step(1e-3);
  }
  double mean = 0;
  for (float value : parameter.to_vector<float>()) mean += static_cast<double>(value) / 4096;
  // Each rounding is off by at most 2^-7 with a deviation of half of it at most: five deviations of
  // the mean of 4,096 walks of 100 roundings.
  CHECK(std::abs(mean - 1.1) < 5 * 0x1p-8 * std::sqrt(100.0 / 4096));
  CHECK(static_cast<float>(BFloat16(1.0f + 1e-3f)) == 1);
}

TEST_CASE("the same seed gives the same bits, on any number of threads; another one others") {
  const auto bits = [](uint64_t seed, int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    SgdOptions options = kLowSgd;
    options.seed = seed;
    SgdWalk walk(Dtype::bfloat16, options);
    for (int i = 0; i < 3; ++i) walk.step(Dtype::bfloat16);
    set_num_threads(before);
    return walk.bits();
  };
  CHECK(bits(3, 1) == bits(3, 2));
  CHECK(bits(3, 1) == bits(3, 3));
  CHECK(bits(3, 1) != bits(4, 1));
  const auto adamw = [](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    AdamWWalk walk(Dtype::bfloat16, kLowAdamW);
    for (int i = 0; i < 3; ++i) walk.step(Dtype::bfloat16);
    set_num_threads(before);
    return walk.bits();
  };
  CHECK(adamw(1) == adamw(4));
}

TEST_CASE("an update in pieces rounds like a whole one") {
  SgdWalk whole(Dtype::bfloat16, kLowSgd), pieces(Dtype::bfloat16, kLowSgd);
  const Tensor gradient = convert_to(random_values(2), {.dtype = Dtype::bfloat16});
  whole.parameter.set_grad(gradient);
  whole.optimizer.step(0.1);
  pieces.parameter.set_grad(gradient);
  pieces.optimizer.begin_pieces({.rate = 0.1});
  CHECK(pieces.optimizer.update_piece(pieces.parameter));
  pieces.optimizer.end_pieces();
  CHECK(whole.bits() == pieces.bits());
}

TEST_CASE("a gradient of bfloat16 that is not finite is found") {
  SgdWalk walk(Dtype::float32, kLowSgd);
  auto values = random_values(1).to_vector<float>();
  values[kSize - 1] = std::numeric_limits<float>::infinity();
  walk.parameter.set_grad(convert_to(from_vector(values, {kSize}), {.dtype = Dtype::bfloat16}));
  const auto before = walk.bits();
  CHECK(walk.optimizer.prepare_if_finite({.rate = 1}) == "p");
  CHECK(walk.bits() == before);
}

TEST_CASE("state takes half the bytes, and another of its kind can be made with it") {
  const auto state_bytes = [](const Optimizer& optimizer) {
    int64_t bytes = 0;
    for (const nn::NamedTensor& state : optimizer.named_state())
      bytes += state.tensor.numel() * size_of(state.tensor.dtype());
    return bytes;
  };
  const AdamWWalk wide(Dtype::float32, {}), low(Dtype::float32, kLowAdamW);
  CHECK(state_bytes(wide.optimizer) == 2 * 4 * kSize);
  CHECK(state_bytes(low.optimizer) == 2 * 2 * kSize);
  const auto made = wide.optimizer.like(wide.optimizer.parameters(), Dtype::bfloat16);
  CHECK(state_bytes(*made) == state_bytes(low.optimizer));
  CHECK(state_bytes(*low.optimizer.like(low.optimizer.parameters())) == state_bytes(low.optimizer));
  // Parameters of float64 keep all they have.
  CHECK(state_bytes(SgdWalk(Dtype::float64, kLowSgd).optimizer) == 8 * kSize);
}

TEST_CASE("types that make no sense are refused") {
  Tensor half = ones({4}, {.dtype = Dtype::float16}), wide = ones({4});
  half.set_requires_grad();
  wide.set_requires_grad();
  CHECK_THROWS_WITH_AS(Sgd({{"p", half}}, {}), doctest::Contains("got float16 for 'p'"),
                       DtypeError);
  CHECK_THROWS_WITH_AS(Sgd({{"p", wide}}, {.momentum = 0.9, .state = Dtype::float16}),
                       doctest::Contains("state of float32 or bfloat16, got float16"), DtypeError);
  for (Dtype parameter : {Dtype::float32, Dtype::float64, Dtype::bfloat16})
    CHECK_THROWS_WITH_AS(SgdWalk(parameter, {.momentum = 0.9, .state = Dtype::float64}),
                         doctest::Contains("state of float32 or bfloat16, got float64"),
                         DtypeError);
  wide.set_grad(ones({4}, {.dtype = Dtype::float16}));
  Sgd sgd({{"p", wide}}, {});
  CHECK_THROWS_WITH_AS(sgd.step(0.1),
                       doctest::Contains("a gradient of float32 for 'p', got float16"), DtypeError);
}

TEST_CASE("modules of bfloat16 have it in the weights of products; their averages are refused") {
  nn::CreationScope low({.dtype = Dtype::bfloat16});
  nn::Conv2d conv(3, 8, {.kernel = 3});
  nn::BatchNorm2d norm(8);
  CHECK(conv.weight.dtype() == Dtype::bfloat16);
  CHECK(conv.bias.dtype() == Dtype::float32);
  CHECK(norm.weight.dtype() == Dtype::float32);
  CHECK(norm.running_mean.dtype() == Dtype::float32);
  nn::initialize(conv, 1);
  nn::Linear fc(8, 8);
  fc.to(Dtype::float32);
  CHECK(fc.weight.dtype() == Dtype::float32);
  fc.to(Dtype::bfloat16);
  CHECK(fc.weight.dtype() == Dtype::bfloat16);
  CHECK(fc.bias.dtype() == Dtype::float32);
  CHECK_THROWS_WITH_AS(Ema(conv, {}), doctest::Contains("would stand still: 'weight'"), DtypeError);
  CHECK_THROWS_AS(nn::CreationScope({.dtype = Dtype::float16}), DtypeError);
}
