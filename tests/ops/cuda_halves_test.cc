// Kernels of GPUs for halves: each result has the bits that the float32 kernel's has when it is
// rounded. And vector loads: results have the same bits wherever a buffer begins and ends.
#include <doctest/doctest.h>

#include <bit>
#include <string>
#include <type_traits>
#include <vector>

#include "brim/core/kernels.h"
#include "brim/memory/account.h"
#include "brim/ops/adaptive_avg_pool2d.h"
#include "brim/ops/avg_pool2d.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/binary_cross_entropy_with_logits.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_transpose2d.h"
#include "brim/ops/cross_entropy.h"
#include "brim/ops/dropout.h"
#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/embedding.h"
#include "brim/ops/gather.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/group_norm.h"
#include "brim/ops/interpolate.h"
#include "brim/ops/kl_div.h"
#include "brim/ops/linear.h"
#include "brim/ops/log_softmax.h"
#include "brim/ops/max.h"
#include "brim/ops/max_pool2d.h"
#include "brim/ops/mse_loss.h"
#include "brim/ops/normalize.h"
#include "brim/ops/op.h"
#include "brim/ops/scaled_dot_product_attention.h"
#include "brim/ops/slice.h"
#include "brim/ops/softmax.h"
#include "brim/ops/sum.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/conversions.h"

using namespace brim;
using testing::bit_difference;

namespace {

constexpr Dtype kHalves[] = {Dtype::float16, Dtype::bfloat16};

/// Says so and returns true where there is neither a GPU nor an emulated one.
bool skipped() {
  REQUIRE(kernels_ready);
  try {
    memory::account(Device::cuda());
    return false;
  } catch (const DeviceError& error) {
    MESSAGE("skipped: halves on CUDA (", error.what(), ")");
    return true;
  }
}

Tensor numbers(const Shape& shape, Dtype dtype, uint64_t seed, float low = -3, float high = 3) {
  return convert_to(uniform(shape, low, high, RandomKey{seed}),
                    {.dtype = dtype, .device = Device::cuda()});
}

Tensor labels(int64_t rows, int64_t classes) {
  std::vector<int64_t> values(static_cast<size_t>(rows));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * 7) % classes;
  return from_vector(values, {rows}, Device::cuda());
}

Tensor on_cpu(const Tensor& tensor) { return testing::on_device({tensor}, Device::cpu())[0]; }
Tensor on_cuda(const Tensor& tensor) { return testing::on_device({tensor}, Device::cuda())[0]; }

Tensor empty_on_cuda(const Shape& shape, Dtype dtype) {
  return empty(shape, {.dtype = dtype, .device = Device::cuda()});
}

class Widened final : public LaunchObserver {
 public:
  void launched(const LaunchEvent& event) override { any |= event.widened.has_value(); }
  bool any = false;
};

/// Halves as float32, all else as it is; each a copy.
Tensors wide_copies(const Tensors& tensors, Dtype low) {
  Tensors copies;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined())
      copies.emplace_back();
    else if (tensor.dtype() == low)
      copies.push_back(convert_to(tensor, {.dtype = Dtype::float32, .device = Device::cuda()}));
    else
      copies.push_back(clone(tensor));
  }
  return copies;
}

/// Runs the kernel for `low`, and that for float32 between widened and rounded copies. What it is
/// to write, `out`, has the values that it updates.
template <class A>
void compare(const Kernel<A>& kernel, Dtype low, const Tensors& in, const Tensors& out,
             const std::type_identity_t<A>& attributes = {}, bool native = true) {
  CAPTURE(std::string(kernel.name));
  CAPTURE(std::string(to_string(low)));
  const Tensors wide_in = wide_copies(in, low), wide_out = wide_copies(out, low);
  launch(kernel, Dtype::float32, wide_in, wide_out, attributes);
  Widened widened;
  {
    LaunchObserverScope scope(widened);
    launch(kernel, low, in, out, attributes);
  }
  CHECK(widened.any != native);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].defined()) continue;
    Tensor expected = convert_to(wide_out[i], {.dtype = out[i].dtype()});
    const std::string difference = bit_difference(testing::on_device({out[i]}, Device::cpu())[0],
                                                  testing::on_device({expected}, Device::cpu())[0]);
    CHECK_MESSAGE(difference.empty(), "output ", i, ": ", difference);
  }
}

/// Compares every elementwise kernel, on `count` elements.
struct CompareElementwise {
  int64_t count;
  Dtype low;
  template <class F>
  void unary(const Kernel<F>& kernel) const {
    compare(kernel, low, {numbers({count}, low, 1)}, {empty_on_cuda({count}, low)}, F{});
  }
  template <class F>
  void binary(const Kernel<F>& kernel) const {
    compare(kernel, low, {numbers({count}, low, 1), numbers({count}, low, 2)},
            {empty_on_cuda({count}, low)}, F{});
  }
  template <class F>
  void broadcast(const Kernel<F>& kernel) const {
    binary(kernel);
    const Shape rows{3, count};
    compare(kernel, low, {numbers(rows, low, 1), numbers({count}, low, 2)},
            {empty_on_cuda(rows, low)}, F{});
  }
};

/// The tensor, and one of the same values a single element behind a boundary.
Tensors placed(const Tensor& tensor) {
  const int64_t count = tensor.numel();
  Tensor base = empty_on_cuda({count + 1}, tensor.dtype());
  Tensor behind = slice(base, 0, {.begin = 1});
  copy_into(behind, tensor);
  return {tensor, behind};
}

template <class A>
void compare_places(const Kernel<A>& kernel, Dtype dtype, size_t inputs, int64_t count,
                    const A& attributes) {
  CAPTURE(std::string(kernel.name));
  CAPTURE(std::string(to_string(dtype)));
  CAPTURE(count);
  std::vector<Tensors> in;
  for (size_t k = 0; k < inputs; ++k) in.push_back(placed(numbers({count}, dtype, k + 1)));
  Tensor expected;
  for (size_t moved = 0; moved <= inputs + 1; ++moved) {  // none, one of the inputs, the output
    Tensors from;
    for (size_t k = 0; k < inputs; ++k) from.push_back(in[k][moved == k + 1 ? 1 : 0]);
    Tensor y = placed(empty_on_cuda({count}, dtype))[moved == inputs + 1 ? 1 : 0];
    launch(kernel, dtype, from, Tensors{y}, attributes);
    Tensor got = on_cpu(y);
    if (moved == 0) expected = got;
    CHECK(bit_difference(got, expected) == "");
  }
}

}  // namespace

namespace {

/// Tensors whose elements are stored as `Bits`, by number.
template <class Bits, class Make>
Tensor tensor_of_bits(int64_t count, Dtype dtype, const Make& make) {
  Tensor tensor = empty({count}, {.dtype = dtype});
  auto* bits = static_cast<Bits*>(tensor.data());
  for (int64_t i = 0; i < count; ++i) bits[i] = make(static_cast<uint32_t>(i));
  return tensor;
}

std::string conversion_fault(const Tensor& from, const Tensor& expected) {
  Tensor there = convert_to(on_cuda(from), {.dtype = expected.dtype(), .device = Device::cuda()});
  return bit_difference(on_cpu(there), expected);
}

// The CPU's instructions make signalling NaN quiet; core/half.h does not.
template <class S>
void check_conversions() {
  constexpr int64_t kCodes = 65536;
  const auto decode = [](uint32_t code) {
    S half;
    half.bits = static_cast<uint16_t>(code);
    return std::bit_cast<uint32_t>(static_cast<float>(half));
  };
  const Tensor halves = tensor_of_bits<uint16_t>(
      kCodes, dtype_of<S>, [](uint32_t code) { return static_cast<uint16_t>(code); });
  CHECK(conversion_fault(halves, tensor_of_bits<uint32_t>(kCodes, Dtype::float32, decode)) == "");
  // Floats on every side of every half, and of the middle between two.
  for (uint32_t beyond : {0x0u, 0x1u, 0xFFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u}) {
    const auto shifted = [&](uint32_t code) { return decode(code) + beyond; };
    const auto encode = [&](uint32_t code) { return S(std::bit_cast<float>(shifted(code))).bits; };
    CHECK(conversion_fault(tensor_of_bits<uint32_t>(kCodes, Dtype::float32, shifted),
                           tensor_of_bits<uint16_t>(kCodes, dtype_of<S>, encode)) == "");
  }
}

}  // namespace

TEST_CASE("cuda halves: conversions have the bits of core/half.h, of all halves and between them") {
  if (skipped()) return;
  check_conversions<Float16>();
  check_conversions<BFloat16>();
}

TEST_CASE("cuda halves: elementwise kernels, whole packs and what is behind them") {
  if (skipped()) return;
  for (Dtype low : kHalves)
    for (int64_t count : {0, 1, 7, 8, 9, 27})
      for_each_elementwise_kernel(CompareElementwise{count, low});
  for (Dtype low : kHalves)
    compare(kernel::accumulate, low, {numbers({27}, low, 1)}, {numbers({27}, low, 2)});
}

TEST_CASE("cuda vectors: bits do not depend on where buffers begin, nor on their length") {
  if (skipped()) return;
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
    for (int64_t count : {1, 2, 3, 4, 5, 7, 8, 9, 40}) {
      compare_places(kernel::silu, dtype, 1, count, {});
      compare_places(kernel::add, dtype, 2, count, {});
      compare_places(kernel::gelu_backward, dtype, 2, count, {});
      compare_places(kernel::dropout, dtype, 1, count, {.p = 0.4, .key = RandomKey{5}});
    }
}

TEST_CASE("cuda vectors: copies and casts are the CPU's, wherever buffers begin and end") {
  if (skipped()) return;
  constexpr Dtype kDtypes[] = {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16,
                               Dtype::uint8};
  for (Dtype from : kDtypes)
    for (Dtype to : kDtypes)
      for (int64_t count : {1, 7, 8, 9, 16, 33}) {
        CAPTURE(std::string(to_string(from)));
        CAPTURE(std::string(to_string(to)));
        CAPTURE(count);
        const Tensor x = numbers({count}, from, 1, 0, 200);
        const Tensor expected = convert_to(on_cpu(x), {.dtype = to});
        for (const Tensor& source : placed(x))
          for (const Tensor& y : placed(empty_on_cuda({count}, to))) {
            copy_into(y, source);
            CHECK(bit_difference(on_cpu(y), expected) == "");
          }
      }
}

TEST_CASE("cuda halves: sums and maxima, and their gradients") {
  if (skipped()) return;
  for (Dtype low : kHalves) {
    struct Axes {
      Shape x, y;
    };
    // Units that are cut into pieces; results side by side; units side by side.
    for (const auto& [x, y] : {Axes{{1, 1100, 5}, {1, 1, 5}}, Axes{{3, 37, 5}, {3, 1, 5}},
                               Axes{{3, 7, 45}, {3, 7, 1}}}) {
      const kernel::SumAttributes by{.scale = 0.3};
      compare(kernel::sum, low, {numbers(x, low, 1)}, {empty_on_cuda(y, low)}, by);
      compare(kernel::sum, low, {numbers(x, low, 1), numbers(x, low, 2)}, {empty_on_cuda(y, low)},
              by);
      compare(kernel::sum_backward, low, {numbers(y, low, 3)}, {empty_on_cuda(x, low)}, by);
      Tensor index = empty_on_cuda(y, Dtype::int64);
      compare(kernel::max, low, {numbers(x, low, 1)}, {empty_on_cuda(y, low), index});
      compare(kernel::max_backward, low, {numbers(y, low, 3), index}, {empty_on_cuda(x, low)});
    }
    compare(kernel::sum, low, {numbers({0, 3}, low, 1)}, {empty_on_cuda({1, 3}, low)});
    compare(kernel::bias_gradient, low, {numbers({77, 35}, low, 1)}, {empty_on_cuda({35}, low)});
  }
}

TEST_CASE("cuda halves: softmax and cross entropy") {
  if (skipped()) return;
  for (Dtype low : kHalves) {
    const Shape x{6, 45};
    for (int axis : {0, 1}) {
      const kernel::SoftmaxAttributes by{.axis = axis};
      compare(kernel::softmax, low, {numbers(x, low, 1)}, {empty_on_cuda(x, low)}, by);
      compare(kernel::log_softmax, low, {numbers(x, low, 1)}, {empty_on_cuda(x, low)}, by);
      const Tensors in{numbers(x, low, 1), numbers(x, low, 2, 0, 1)};
      compare(kernel::softmax_backward, low, in, {empty_on_cuda(x, low)}, by);
      compare(kernel::log_softmax_backward, low, in, {empty_on_cuda(x, low)}, by);
    }
    for (Dtype beside : {low, Dtype::float32})  // of distributions and weights
      for (Reduction reduction : {Reduction::none, Reduction::mean})
        for (bool soft : {false, true}) {
          const kernel::CrossEntropyAttributes by{.label_smoothing = 0.1, .reduction = reduction};
          const Shape loss = reduction == Reduction::none ? Shape{6} : Shape{};
          const Tensor target = soft ? numbers(x, beside, 4, 0, 1) : labels(6, 45);
          const Tensor weight = numbers({45}, beside, 5, 0.5, 2);
          Tensor log_sums = empty_on_cuda({6}, Dtype::float64);
          compare(kernel::cross_entropy, low, {numbers(x, low, 1), target, weight},
                  {empty_on_cuda(loss, low), log_sums}, by);
          compare(kernel::cross_entropy_backward, low,
                  {numbers(loss, low, 3), numbers(x, low, 1), target, weight, log_sums},
                  {empty_on_cuda(x, low), soft ? empty_on_cuda(x, beside) : Tensor()}, by);
        }
  }
}

TEST_CASE("cuda halves: elementwise losses") {
  if (skipped()) return;
  auto check = [](const auto& kernels, Dtype low, const Tensor& weight, bool reduces) {
    const Shape x{9, 13}, loss = reduces ? Shape{} : x;
    const Tensor input = numbers(x, low, 1), target = numbers(x, low, 2, 0.1f, 1);
    compare(kernels.forward, low, {input, target, weight}, {empty_on_cuda(loss, low)},
            {.formula = {}, .reduces = reduces, .scale = 0.01});
    compare(kernels.backward, low, {numbers(loss, low, 3), input, target, weight},
            {empty_on_cuda(x, low), empty_on_cuda(x, low)},
            {.formula = {}, .reduces = reduces, .scale = 0.01});
  };
  for (Dtype low : kHalves)
    for (bool reduces : {false, true}) {
      check(kernel::mse_loss, low, Tensor(), reduces);
      check(kernel::kl_div, low, Tensor(), reduces);
      for (Dtype beside : {low, Dtype::float32})
        check(kernel::binary_cross_entropy_with_logits, low, numbers({13}, beside, 4, 0.5, 2),
              reduces);
    }
}

TEST_CASE("cuda halves: pooling") {
  if (skipped()) return;
  const PoolWindow window{.kernel = 3, .stride = 2, .padding = 1};
  const Shape x{2, 5, 6, 10}, y{2, 3, 3, 10}, one{2, 1, 1, 10};
  for (Dtype low : kHalves) {
    const auto in = [&](const Shape& shape) { return numbers(shape, low, 1); };
    const auto out = [&](const Shape& shape) { return empty_on_cuda(shape, low); };
    Tensor index = empty_on_cuda(y, Dtype::uint8);
    compare(kernel::max_pool2d, low, {in(x)}, {out(y), index}, window);
    compare(kernel::max_pool2d_backward, low, {in(y), index}, {out(x)}, window);
    compare(kernel::avg_pool2d, low, {in(x)}, {out(y)}, window);
    compare(kernel::avg_pool2d_backward, low, {in(y)}, {out(x)}, window);
    compare(kernel::adaptive_avg_pool2d, low, {in(x)}, {out(y)});
    compare(kernel::adaptive_avg_pool2d_backward, low, {in(y)}, {out(x)});
    compare(kernel::global_avg_pool, low, {in(x)}, {out(one)});
    compare(kernel::global_avg_pool_backward, low, {in(one)}, {out(x)});
  }
}

TEST_CASE("cuda halves: normalize and dropout") {
  if (skipped()) return;
  for (Dtype low : kHalves) {
    kernel::NormalizeAttributes by;
    for (size_t c = 0; c < 3; ++c) {
      by.scale[c] = 0.017 + 0.001 * static_cast<double>(c);
      by.shift[c] = -2.1;
    }
    const Tensor x = convert_to(uniform({2, 4, 5, 3}, 0, 255, RandomKey{1}),
                                {.dtype = Dtype::uint8, .device = Device::cuda()});
    compare(kernel::normalize, low, {x}, {empty_on_cuda(x.shape(), low)}, by);
    for (const Shape& shape : {Shape{5, 16}, Shape{5, 13}, Shape{3, 2}})
      compare(kernel::dropout, low, {numbers(shape, low, 1)}, {empty_on_cuda(shape, low)},
              {.p = 0.3, .key = RandomKey{7}, .first_sample = 11});
  }
}

namespace {

/// One form of batch norm: `beside` is the dtype of its parameters.
struct Norm {
  Dtype low, beside;
  int64_t channels;
  Activation activation;
  bool adds;
  bool training = true;

  Shape shape() const { return {7, 11, channels}; }
  kernel::BatchNormAttributes attributes() const {
    return {.activation = activation, .training = training};
  }
  void check() const {
    CAPTURE(channels);
    CAPTURE(static_cast<int>(activation));
    const Tensor x = numbers(shape(), low, 1), weight = numbers({channels}, beside, 2, 0.5, 2),
                 bias = numbers({channels}, beside, 3);
    const Tensor residual = adds ? numbers(shape(), low, 4) : Tensor();
    Tensor mean = empty_on_cuda({channels}, Dtype::float64),
           variance = empty_on_cuda({channels}, Dtype::float64), y = empty_on_cuda(shape(), low);
    compare(kernel::batch_norm_statistics, low, {x}, {mean, variance});
    compare(kernel::batch_norm, low, {x, weight, bias, mean, variance, residual}, {y},
            attributes());
    check_backward({numbers(shape(), low, 5), x, weight, mean, variance, bias, Tensor(), residual});
    if (activation == Activation::relu || activation == Activation::relu6)
      check_backward({numbers(shape(), low, 5), x, weight, mean, variance, bias, y, Tensor()});
  }
  // The gradient of the residual of hardswish is not one of the halves.
  void check_backward(const Tensors& in) const {
    const bool activates = activation != Activation::none;
    const Tensor dresidual = adds && activates ? empty_on_cuda(shape(), low) : Tensor();
    compare(kernel::batch_norm_backward, low, in,
            {empty_on_cuda(shape(), low), empty_on_cuda({channels}, beside),
             empty_on_cuda({channels}, beside), dresidual},
            attributes(), !(dresidual.defined() && activation == Activation::hardswish));
  }
};

}  // namespace

TEST_CASE("cuda halves: batch norm, with parameters in halves and in float32") {
  if (skipped()) return;
  for (Dtype low : kHalves)
    for (Dtype beside : {low, Dtype::float32}) {
      for (Activation activation :
           {Activation::none, Activation::relu, Activation::relu6, Activation::hardswish})
        for (bool adds : {false, true}) Norm{low, beside, 16, activation, adds}.check();
      for (int64_t channels : {1, 3, 13})  // channels that do not fill packs
        Norm{low, beside, channels, Activation::relu, true}.check();
      Norm{low, beside, 16, Activation::relu, false, /*training=*/false}.check();
    }
}

TEST_CASE("cuda halves: running statistics of a batch, and of its parts") {
  if (skipped()) return;
  for (Dtype low : kHalves)
    for (double before : {0.0, 0.5}) {
      const Tensor mean = numbers({13}, Dtype::float64, 1),
                   variance = numbers({13}, Dtype::float64, 2, 0.1f, 2);
      compare(kernel::running_statistics, low, {mean, variance, numbers({13}, low, 3)},
              {numbers({13}, low, 4), numbers({13}, low, 5, 0.1f, 2)},
              {.momentum = 0.1, .correction = 1.1, .part = 0.25, .before = before});
    }
}

TEST_CASE("cuda halves: group norm, with parameters in halves, in float32, and without") {
  if (skipped()) return;
  struct Form {
    Shape x;  // samples, pixels, channels
    int64_t groups;
  };
  // Groups that are summed by channel, whole ones, layer norm, pieces.
  for (const Form& form : {Form{{2, 9, 6}, 2}, {{2, 4, 140}, 2}, {{6, 1, 45}, 1}, {{1, 300, 6}, 2}})
    for (Dtype low : kHalves)
      for (Dtype beside : {low, Dtype::float32})
        for (bool scales : {false, true}) {
          CAPTURE(to_string(form.x));
          const Shape statistic{form.x[0], form.groups}, channels{form.x[2]};
          const auto parameter = [&](uint64_t seed) {
            return scales ? numbers(channels, beside, seed) : Tensor();
          };
          const Tensor x = numbers(form.x, low, 1), weight = parameter(2);
          const Tensor mean = empty_on_cuda(statistic, Dtype::float64),
                       inverse = empty_on_cuda(statistic, Dtype::float64);
          compare(kernel::group_norm, low, {x, weight, parameter(3)},
                  {empty_on_cuda(form.x, low), mean, inverse}, {.groups = form.groups});
          compare(kernel::group_norm_backward, low,
                  {numbers(form.x, low, 4), x, weight, mean, inverse},
                  {empty_on_cuda(form.x, low), empty_on_cuda(channels, beside),
                   empty_on_cuda(channels, beside)},
                  {.groups = form.groups});
        }
}

TEST_CASE("cuda halves: interpolate") {
  if (skipped()) return;
  const Shape x{2, 5, 4, 3}, y{2, 9, 3, 3};
  for (Dtype low : kHalves)
    for (InterpolateMode mode : {InterpolateMode::nearest, InterpolateMode::bilinear}) {
      const Interpolation by{.h = {5, 9, 0.5}, .w = {4, 3, 0.5}, .mode = mode};
      compare(kernel::interpolate, low, {numbers(x, low, 1)}, {empty_on_cuda(y, low)}, by);
      compare(kernel::interpolate_backward, low, {numbers(y, low, 2)}, {empty_on_cuda(x, low)}, by);
    }
}

TEST_CASE("cuda halves: embedding and gather, also of an index outside") {
  if (skipped()) return;
  const Tensor words = labels(40, 9), index = labels(60, 9).view_as({4, 3, 5});
  for (Dtype low : kHalves) {
    compare(kernel::embedding, low, {words, numbers({8, 7}, low, 1)},
            {empty_on_cuda({40, 7}, low)});
    compare(kernel::embedding_backward, low, {numbers({40, 7}, low, 2), words},
            {empty_on_cuda({9, 7}, low)}, {.padding_index = 3});
    compare(kernel::gather, low, {numbers({4, 8, 5}, low, 1), index},
            {empty_on_cuda({4, 3, 5}, low)}, {.axis = 1});
    compare(kernel::gather_backward, low, {numbers({4, 3, 5}, low, 2), index},
            {empty_on_cuda({5, 9, 5}, low)}, {.axis = 1});
  }
}

TEST_CASE("cuda halves: what attention adds to scores") {
  if (skipped()) return;
  const Tensor mask = convert_to(numbers({6, 7}, Dtype::uint8, 1, 0, 2),
                                 {.dtype = Dtype::boolean, .device = Device::cuda()});
  for (Dtype low : kHalves)
    for (const Tensor& seen : {mask, Tensor()})
      compare(kernel::attention_bias, low, {seen}, {empty_on_cuda({6, 7}, low)});
}

namespace {

/// A depthwise convolution. 24 channels are packs of every dtype, 9 of none.
struct Depthwise {
  int64_t window;
  Conv2dOptions options;

  Shape x() const { return {2, 7, 10, options.groups}; }
  Shape weight() const { return {options.groups, window, window, 1}; }
  Shape y() const { return conv2d_shape(x(), weight(), options); }
  Shape bias() const { return {options.groups}; }
};

std::vector<Depthwise> depthwise_forms() {
  std::vector<Depthwise> forms;
  for (int64_t channels : {9, 24}) {
    for (int64_t window : {3, 5})
      for (int64_t stride : {1, 2})
        forms.push_back({window, {.stride = stride, .padding = 1, .groups = channels}});
    forms.push_back({3, {.stride = {1, 2}, .padding = 2, .dilation = 2, .groups = channels}});
  }
  return forms;
}

}  // namespace

TEST_CASE("cuda halves: depthwise convolution, with a bias, its gradients and its transpose") {
  if (skipped()) return;
  for (const Depthwise& form : depthwise_forms())
    for (Dtype low : kHalves) {
      CAPTURE(form.window);
      CAPTURE(form.options.groups);
      const auto in = [&](const Shape& shape, uint64_t seed) { return numbers(shape, low, seed); };
      const auto out = [&](const Shape& shape) { return empty_on_cuda(shape, low); };
      const Tensor x = in(form.x(), 1), dy = in(form.y(), 2), weight = in(form.weight(), 3);
      for (const Tensor& bias : {in(form.bias(), 4), Tensor()}) {
        compare(kernel::conv2d, low, {x, weight, bias}, {out(form.y())}, form.options);
        compare(kernel::conv_transpose2d, low, {dy, weight, bias}, {out(form.x())}, form.options);
      }
      compare(kernel::conv2d_backward_data, low, {dy, weight}, {out(form.x())}, form.options);
      compare(kernel::conv2d_backward_weight, low, {x, dy}, {out(form.weight())}, form.options);
    }
}

TEST_CASE("cuda vectors: depthwise convolution has the same bits wherever its images begin") {
  if (skipped()) return;
  const auto check = [](const auto& kernel, const Tensor& image, const Tensor& weight,
                        const Shape& result, const Conv2dOptions& options) {
    CAPTURE(std::string(kernel.name));
    Tensor expected;
    for (const Tensor& from : placed(image.view_as({image.numel()})))
      for (const Tensor& to : placed(empty_on_cuda({numel(result)}, image.dtype()))) {
        launch(kernel, image.dtype(), {from.view_as(image.shape()), weight, Tensor()},
               {to.view_as(result)}, options);
        const Tensor got = on_cpu(to).view_as(result);
        if (!expected.defined()) expected = got;
        CHECK(bit_difference(got, expected) == "");
      }
  };
  for (const Depthwise& form : depthwise_forms())
    for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
      CAPTURE(form.window);
      CAPTURE(std::string(to_string(dtype)));
      const Tensor weight = numbers(form.weight(), dtype, 3);
      check(kernel::conv2d, numbers(form.x(), dtype, 1), weight, form.y(), form.options);
      check(kernel::conv_transpose2d, numbers(form.y(), dtype, 2), weight, form.x(), form.options);
    }
}
