// The harness itself: a right op passes, and each way of being wrong is found and named.

#include <doctest/doctest.h>

#include <cmath>

#include "brim/memory/out_of_memory.h"
#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/mul.h"
#include "brim/ops/op.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

enum class Flaw {
  none,
  value,
  rounding,
  backward_sign,
  no_gradient,
  unwritten_memory,
  replay,
  side_effect,
  meta_shape,
  meta_bytes,
  gradient_mode,
  input_overwritten,
  gradient_overwritten,
  owned_gradient,
  strides,
  leak,
  shortage_ignored,
  empty_batch,
  caller,
  nan_hidden,
  infinity_hidden,
  nan_gradient,
};

Tensor kept;  // what a leaking op leaves behind

void scale_by(const Tensor& x, double factor) {
  launch(kernel::mul, {x, full({}, factor, {.dtype = x.dtype(), .device = x.device()})}, {x});
}

// y = 2x, with at most one flaw.
class Twice final : public autograd::Op {
 public:
  Twice(Flaw flaw, Tensor buffer) : flaw_(flaw), buffer_(std::move(buffer)) {}
  const char* name() const override { return "twice"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    expect<ShapeError>(in[0].dim() > 0, name(), "expected axes, got a scalar");
    Tensor x = flaw_ == Flaw::strides ? blind_to_strides(in[0]) : contiguous(in[0]);
    if (flaw_ == Flaw::empty_batch) expect<ShapeError>(x.size(0) > 0, name(), "nothing there");
    Tensor y = clone(x);
    accumulate_into(y, x);
    spoil_forward(in[0], y, context);
    if (flaw_ == Flaw::unwritten_memory) {
      y = empty_like(x);
      copy_into(most_of(y), most_of(x));
    }
    if (flaw_ == Flaw::meta_shape && x.device().is_meta()) return {y.view_as(Shape{1, x.numel()})};
    return {y};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad(), dx = clone(dy);
    if (flaw_ == Flaw::no_gradient) return {Tensor()};
    accumulate_into(dx, dy);
    if (flaw_ == Flaw::backward_sign) scale_by(dx, -1);
    if (flaw_ == Flaw::nan_gradient && !dx.device().is_meta()) without(dx, Flaw::nan_hidden);
    if (flaw_ == Flaw::gradient_overwritten) fill(dy, 0);
    if (flaw_ == Flaw::owned_gradient && dy.shared_body().use_count() == 1) fill(dx, 0);
    return {dx};
  }

 private:
  void spoil_forward(const Tensor& x, const Tensor& y,
                     const autograd::ForwardContext& context) const {
    bool meta = x.device().is_meta();
    if (flaw_ == Flaw::value) scale_by(y, 1.5);
    if (flaw_ == Flaw::rounding && x.dtype() != Dtype::float64) scale_by(y, 1 + 0x1.0p-19);
    if (flaw_ == Flaw::replay && ++calls_ > 1) fill(y, 3);
    if (flaw_ == Flaw::side_effect) fill(buffer_, 1);
    if (flaw_ == Flaw::meta_bytes && !meta) empty_like(x);
    if (flaw_ == Flaw::gradient_mode && !context.for_backward) fill(y, 3);
    if (flaw_ == Flaw::input_overwritten) scale_by(x, 2);
    if (!meta && (flaw_ == Flaw::nan_hidden || flaw_ == Flaw::infinity_hidden)) without(y, flaw_);
    if (flaw_ == Flaw::leak) kept = y;
    if (flaw_ == Flaw::shortage_ignored) try {
        empty_like(x);
      } catch (const memory::OutOfMemory&) {
      }
  }
  // 0 for NaN, or a large number for an infinity.
  static void without(const Tensor& x, Flaw flaw) {
    visit_dtype(x.dtype(), [&]<class T>() {
      T* values = x.data<T>();
      for (int64_t i = 0; i < x.numel(); ++i) {
        const auto value = convert<double>(values[i]);
        if (flaw == Flaw::nan_hidden && std::isnan(value)) values[i] = convert<T>(0.0);
        if (flaw == Flaw::infinity_hidden && std::isinf(value)) values[i] = convert<T>(60000.0);
      }
    });
  }
  static Tensor blind_to_strides(const Tensor& x) {
    Layout layout = x.layout();
    layout.strides = contiguous_strides(layout.shape);
    return Tensor(x.storage(), layout);
  }
  // Without the last row.
  static Tensor most_of(const Tensor& x) {
    Layout layout = x.layout();
    layout.shape[0] = std::max<int64_t>(layout.shape[0] - 1, 0);
    return Tensor(x.storage(), layout);
  }

  Flaw flaw_;
  Tensor buffer_;
  mutable int calls_ = 0;
};

Tensor twice(Tensor x, Flaw flaw) {
  Tensor buffer = zeros({1}, {.dtype = x.dtype(), .device = x.device()});
  return autograd::apply_one(std::make_shared<Twice>(flaw, buffer), {std::move(x)},
                             flaw == Flaw::caller ? Where() : Where::current());
}

OpSpec spec_with(Flaw flaw) {
  return {.op = "twice",
          .samples = {{.name = "sample",
                       .inputs = {uniform({3, 4}, 1, 2, RandomKey{1}, {.dtype = Dtype::float64})},
                       .run = [=](const Tensors& in) { return Tensors{twice(in[0], flaw)}; },
                       .reference =
                           [](const Tensors& in) {
                             std::vector<double> values = in[0].to_vector<double>();
                             for (double& value : values) value *= 2;
                             return Tensors{from_vector(values, in[0].shape())};
                           },
                       .batched = {0}}},
          .errors = {{[] { twice(zeros({}), Flaw::none); }, "twice: expected axes, got a scalar"}}};
}

// Does the harness say `text` about an op with this flaw?
void check_found(Flaw flaw, const std::string& text) {
  std::vector<std::string> faults = find_faults(spec_with(flaw));
  kept = Tensor();
  bool found = false;
  for (const std::string& fault : faults) found |= fault.find(text) != std::string::npos;
  INFO("first of ", faults.size(), " faults: ", faults.empty() ? "none" : faults.front());
  CHECK_MESSAGE(found, "not found: ", text);
}

void check_error_found(std::function<void()> run, const std::string& text) {
  std::vector<std::string> faults =
      find_faults({.op = "twice", .errors = {{std::move(run), "expected axes"}}});
  REQUIRE(faults.size() == 1);
  CHECK_MESSAGE(faults[0].find(text) != std::string::npos, faults[0]);
}

}  // namespace

TEST_CASE("harness: a right op has no faults") {
  for (const std::string& fault : find_faults(spec_with(Flaw::none))) FAIL_CHECK(fault);
}

TEST_CASE("harness: messages name op, sample, dtype and the worst element") {
  std::vector<std::string> faults = find_faults(spec_with(Flaw::value));
  REQUIRE(!faults.empty());
  for (const char* part : {"twice, sample 'sample', float32: output 0 is off: element [", "got ",
                           "expected ", "error ", "allowed "})
    CHECK_MESSAGE(faults[0].find(part) != std::string::npos, part, " in: ", faults[0]);
}

TEST_CASE("harness: a value where infinity or NaN is expected is found") {
  const double inf = HUGE_VAL;
  for (double expected : {inf, -inf, std::nan("")})
    CHECK(testing::worst_error(zeros({1}), {expected}, {expected}) != "");
}

TEST_CASE("harness: every flaw is found") {
  check_found(Flaw::rounding, "float32: output 0 is off");
  check_found(Flaw::backward_sign, "float64: the gradient is wrong: input 0, element");
  check_found(Flaw::no_gradient, "input 0 got no gradient");
  check_found(Flaw::unwritten_memory, "a second run with other values in fresh memory: output 0");
  check_found(Flaw::replay, "replay of twice gives another output 0: element [0,0]");
  check_found(Flaw::side_effect, "replay of twice has a side effect: 'fill' writes to a buffer");
  check_found(Flaw::meta_shape, "meta device: output 0 is float32 [1,12] on meta");
  check_found(Flaw::meta_bytes, "meta device: account entry");
  check_found(Flaw::gradient_mode, "with gradients off: output 0 differs");
  check_found(Flaw::input_overwritten, "input 0 was overwritten");
  check_found(Flaw::gradient_overwritten, "the gradient given for output 0 was overwritten");
  check_found(Flaw::owned_gradient,
              "incoming gradients that nobody else holds: gradient of input 0");
  check_found(Flaw::strides, "inputs with gaps: output 0 differs");
  check_found(Flaw::leak, "bytes are held after everything was dropped");
  check_found(Flaw::shortage_ignored, "was refused and nothing was thrown");
  check_found(Flaw::empty_batch, "empty batch throws: twice: nothing there");
  check_found(Flaw::nan_hidden, "float32: a NaN in input 0: output 0 is off: element [");
  check_found(Flaw::nan_hidden, "NaN and infinities in input 0: output 0 is off: element [");
  check_found(Flaw::infinity_hidden,
              "bfloat16: an infinity in input 0: output 0 is off: element [");
  check_found(Flaw::infinity_hidden, "a negative infinity in input 0: output 0 is off: element [");
  check_found(Flaw::nan_gradient,
              "nan as a gradient of output 0: the gradient of input 0 is finite");
  check_found(Flaw::caller, "twice says that it was called at :0, a path without 'test' in it");
}

TEST_CASE("harness: wrong error cases are found") {
  check_error_found([] {}, "nothing was thrown");
  check_error_found([] { raise<ShapeError>("twice", "something else"); }, "the text is");
  check_error_found([] { raise<ShapeError>("once", "expected axes"); }, "the tag is 'once'");
  check_error_found([] { throw std::bad_alloc(); }, "not a brim error");
  check_error_found(
      [] {
        kept = ones({100});
        raise<ShapeError>("twice", "expected axes");
      },
      "live bytes before");
  kept = Tensor();
}

TEST_CASE("harness: a composition of ops is checked op by op") {
  OpSpec spec = spec_with(Flaw::none);
  spec.errors.clear();
  spec.samples[0].run = [](const Tensors& in) {
    return Tensors{twice(mul(in[0], in[0]), Flaw::none)};
  };
  spec.samples[0].reference = [](const Tensors& in) {
    std::vector<double> values = in[0].to_vector<double>();
    for (double& value : values) value *= 2 * value;
    return Tensors{from_vector(values, in[0].shape())};
  };
  for (const std::string& fault : find_faults(spec)) FAIL_CHECK(fault);
}

}  // namespace brim
