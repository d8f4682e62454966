// The harness on a GPU: what is wrong there alone is found and named, with inputs in other layouts
// and a batch of none among it. Emulated ones will do.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "brim/base/cuda/devices.h"
#include "brim/tests/support/checker.h"

using namespace brim;
using namespace brim::testing;

namespace {

// The faults of an op that copies, but for what `flaw` says of inputs on a GPU.
std::string faults_of(std::function<bool(const Tensor&)> flaw) {
  OpSample sample{.name = "some",
                  .inputs = {uniform({3, 5}, -1, 1, RandomKey{1})},
                  .run = [flaw](const Tensors& in) -> Tensors {
                    const Tensor& x = in[0];
                    const bool wrong = x.device().is_cuda() && flaw(x);
                    return {wrong ? full({3, 5}, 7, {x.dtype(), x.device()}) : clone(x)};
                  },
                  .reference = [](const Tensors& in) -> Tensors { return {clone(in[0])}; },
                  .differentiable = false,
                  .batched = {0}};
  std::vector<std::string> faults;
  OpSpec spec{.op = "copies", .samples = {sample}};
  check_sample_on(Device::cuda(), spec, sample, Dtype::float32, faults);
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

}  // namespace

TEST_CASE("harness: a kernel that errs on a GPU alone is found, in any layout and size") {
  if (std::string why = cuda::why_no_device(); !why.empty()) {
    MESSAGE("skipped: the harness on CUDA (", why, ")");
    return;
  }
  CHECK(faults_of([](const Tensor&) { return false; }) == "");
  auto check_named = [](const char* name, std::function<bool(const Tensor&)> flaw) {
    const std::string text = faults_of(std::move(flaw));
    CAPTURE(text);
    CHECK(text.find(name) != std::string::npos);
  };
  check_named("output 0 is off", [](const Tensor& x) { return x.is_contiguous(); });
  check_named("inputs with gaps", [](const Tensor& x) { return x.strides()[1] == 2; });
  check_named("inputs transposed in memory", [](const Tensor& x) { return x.strides()[0] == 1; });
  // Another alignment, which libraries may see: on a GPU the values are off, not the bits.
  check_named("output 0", [](const Tensor& x) {
    return x.is_contiguous() && reinterpret_cast<uintptr_t>(x.data()) % 64 != 0;
  });
  check_named("empty batch: output 0", [](const Tensor& x) { return x.numel() == 0; });
}
