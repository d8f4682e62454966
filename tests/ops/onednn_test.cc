// The library works in our threads, and its failures are ours.
#include "brim/ops/onednn.h"

#include <dnnl_types.h>
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <vector>

#include "brim/base/parallel.h"
#include "brim/core/tensor.h"
#include "brim/memory/out_of_memory.h"
#include "brim/ops/conv_shape.h"

namespace brim {

TEST_CASE("oneDNN works in the pool of our own loops") {
  auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  std::atomic<int> visited = 0;
  parallel_for(1000, 1, [&](int64_t, int64_t) { ++visited; });
  auto before = threads();
  CHECK(before == visited);
  Tensor x = zeros({8, 56, 56, 64}), weight = zeros({64, 3, 3, 64});
  Conv2dOptions options{.padding = 1};
  ConvShape shape(x.shape(), weight.shape(), {8, 56, 56, 64}, options);
  const auto convolution = onednn::find_convolution(shape, onednn::Pass::forward, false);
  REQUIRE(convolution != nullptr);
  Tensor y = zeros({8, 56, 56, 64});
  std::vector<char> scratch(static_cast<size_t>(onednn::scratch_bytes(*convolution)) + 64);
  void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  onednn::run(*convolution, x.data<float>(), weight.data<float>(), nullptr, y.data<float>(),
              aligned);
  CHECK(threads() == before);

  NoParallelScope loader_thread;
  CHECK_THROWS_AS(onednn::run(*convolution, x.data<float>(), weight.data<float>(), nullptr,
                              y.data<float>(), aligned),
                  InternalError);
}

TEST_CASE("oneDNN out of memory is brim out of memory; other failures are internal") {
  CHECK_THROWS_AS(onednn::raise_failure(dnnl_out_of_memory, "no room"), memory::OutOfMemory);
  CHECK_THROWS_WITH_AS(onednn::raise_failure(dnnl_runtime_error, "no luck"),
                       "onednn: no luck (status runtime_error)", InternalError);
}

}  // namespace brim
