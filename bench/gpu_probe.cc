// One step of what a GPU has to do before anything larger is tried on it, in a process of its own:
//
//   gpu_probe properties   the card as cuDNN finds it, as JSON
//   gpu_probe context      the runtime's context, the kernels and the libraries
//   gpu_probe mapping      memory: virtual addresses, copies there and back
//   gpu_probe kernel       a kernel of brim's
//   gpu_probe product      matrix products, float32 and float16, by cuBLASLt
//   gpu_probe convolution  the three passes of a convolution, float32 and float16, by cuDNN
//   gpu_probe graph        the capture of a graph, and its start
//
// Ends with 0 where the step gives what the CPU gives, else with 1 and a line that says what not.
// bench/gpu.sh runs them in this order, and where one fails looks closer at it.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "brim/base/bytes.h"
#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/graph.h"
#include "brim/brim.h"
#include "brim/memory/cuda_source.h"
#include "brim/memory/pinned_source.h"
#include "brim/ops/cuda/engine_kind.h"
#include "brim/ops/cuda/warm_up.h"

using namespace brim;

namespace {

const Device kGpu = Device::cuda();
constexpr const char* kTag = "gpu_probe";

/// Throws where the GPU's numbers are further from the CPU's than `share` of the largest.
void compare(const char* what, const Tensor& there, const Tensor& here, double share) {
  const auto got = there.to_vector<double>(), wanted = here.to_vector<double>();
  expect<DeviceError>(got.size() == wanted.size(), kTag, "{} has {} numbers, and the CPU's {}",
                      what, got.size(), wanted.size());
  double largest = 0, apart = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    const double distance = std::abs(got[i] - wanted[i]);
    if (!(distance <= apart)) apart = std::isnan(distance) ? INFINITY : distance;
  }
  fmt::print("{}: apart by {:.2g} of the largest\n", what, apart / largest);
  expect<DeviceError>(apart <= share * largest, kTag,
                      "{} differs from the CPU's by {} where the "
                      "largest number is {}",
                      what, apart, largest);
}

Tensor drawn(const Shape& shape, uint64_t key, Dtype dtype, Device device) {
  return convert_to(uniform(shape, -1, 1, RandomKey{key}), {.dtype = dtype, .device = device});
}

/// Sums of some hundred products of numbers below 1: in float32 they are apart by about 1e-6, and
/// TF32 would be by 1e-4; halves are rounded once on either side, which is 1e-3.
double share_of(Dtype dtype) { return dtype == Dtype::float16 ? 4e-3 : 1e-5; }

void properties() { fmt::print("{}\n", cuda::properties_json(kGpu)); }

void context() {
  if (const std::string text = cuda::kernels_to_compile(kGpu); !text.empty())
    fmt::print(stderr, "{}\n", text);
  const cuda::Context& open = cuda::open_context(kGpu, [] {
    cuda::warm_up(kGpu, std::array{Dtype::float32, Dtype::float16});
  });
  fmt::print("context of {}{}, {} kernels{}{}\n", format_bytes(open.bytes),
             open.is_measured ? "" : " (nobody measured it)", open.kernels,
             open.kernels_failure.empty() ? "" : ", not all: ", open.kernels_failure);
}

void mapping() {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const auto account = std::make_shared<memory::Account>(kGpu, memory::cuda_source(kGpu),
                                                         memory::planner_named("caching"));
  const memory::AccountScope scope(account);
  for (int i = 0; i < 3; ++i) {
    const Tensor numbers = arange(kBytes / 8, {.dtype = Dtype::float64});
    const Tensor back = convert_to(convert_to(numbers, {.dtype = Dtype::float64, .device = kGpu}),
                                   {.dtype = Dtype::float64});
    compare("64 MiB there and back", back, numbers, 0);
  }
  fmt::print("reserved {}\n", format_bytes(account->stats().reserved));
}

void one_kernel() {
  for (const Dtype dtype : {Dtype::float32, Dtype::float16}) {
    const Tensor here = drawn({1000, 37}, 1, dtype, Device::cpu());
    compare("hardswish", hardswish(convert_to(here, {.dtype = dtype, .device = kGpu})),
            hardswish(here), share_of(dtype));
  }
}

void product() {
  for (const Dtype dtype : {Dtype::float32, Dtype::float16})
    compare("product", matmul(drawn({200, 100}, 1, dtype, kGpu), drawn({100, 60}, 2, dtype, kGpu)),
            matmul(drawn({200, 100}, 1, dtype, Device::cpu()),
                   drawn({100, 60}, 2, dtype, Device::cpu())),
            share_of(dtype));
}

/// y, and the gradients of x and the weight.
std::array<Tensor, 3> convolve(Dtype dtype, Device device) {
  Tensor x = drawn({4, 14, 14, 64}, 1, dtype, device),
         weight = drawn({32, 3, 3, 64}, 2, dtype, device);
  x.set_requires_grad(true);
  weight.set_requires_grad(true);
  const Tensor y = conv2d(x, weight, {}, {.padding = 1});
  backward(sum(mul(y, drawn(y.shape(), 3, dtype, device))));
  return {y, x.grad(), weight.grad()};
}

void convolution() {
  for (const Dtype dtype : {Dtype::float32, Dtype::float16}) {
    const auto there = convolve(dtype, kGpu), here = convolve(dtype, Device::cpu());
    const char* const passes[] = {"convolution", "its data gradient", "its weight gradient"};
    for (size_t i = 0; i < there.size(); ++i)
      compare(passes[i], there[i], here[i], share_of(dtype));
  }
}

void graph() {
  const Tensor x = drawn({1000}, 1, Dtype::float32, kGpu);
  Tensor sums = zeros({1000}, {.device = kGpu});
  const auto host = memory::pinned_account(kGpu, 1 << 20, "direct");
  std::vector<memory::Block> pinned;
  cuda::Recording recording(kGpu, [&](int64_t bytes) {
    return pinned.emplace_back(host->allocate(bytes, memory::Category::other)).address();
  });
  accumulate_into(sums, x);
  const cuda::Graph graph = recording.finish();
  for (int i = 0; i < 3; ++i) graph.start();
  compare("three starts of a graph", sums,
          mul(drawn({1000}, 1, Dtype::float32, Device::cpu()), full({}, 3)), 1e-6);
  for (memory::Block& block : pinned) host->release(block);
}

}  // namespace

int main(int count, char** words) {
  const std::map<std::string_view, void (*)()> steps{{"properties", properties},
                                                     {"context", context},
                                                     {"mapping", mapping},
                                                     {"kernel", one_kernel},
                                                     {"product", product},
                                                     {"convolution", convolution},
                                                     {"graph", graph}};
  const auto step = count == 2 ? steps.find(words[1]) : steps.end();
  if (step == steps.end()) {
    fmt::print(stderr,
               "usage: gpu_probe properties|context|mapping|kernel|product|convolution|graph\n");
    return 1;
  }
  try {
    cuda::require_device(kTag, kGpu);
    step->second();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
