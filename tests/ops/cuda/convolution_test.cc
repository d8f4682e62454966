// Which engines cuDNN would run, asked for a GPU that is described and need not be there: graphs,
// their layouts and the choice are tested without one.
#include "brim/ops/cuda/convolution.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/library.h"
#include "brim/base/error.h"
#include "brim/ops/cuda/workspace.h"

using namespace brim;

namespace {

// An H200, by the numbers of its data sheet and of CUDA's programming guide for compute
// capability 9.0.
const std::string kProperties = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": 132,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "totalGlobalMem": 150754820096,
  "l2CacheSize": 62914560, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024})";

struct Sample {
  const char* name;
  Shape x, weight;
  Conv2dOptions options;
};
const std::vector<Sample> kSamples = {
    {"stem", {8, 224, 224, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}},
    {"3x3", {8, 56, 56, 64}, {128, 3, 3, 64}, {.stride = 2, .padding = 1}},
    {"1x1", {8, 14, 14, 256}, {128, 1, 1, 256}, {}},
    {"depthwise", {8, 14, 14, 96}, {96, 3, 3, 1}, {.padding = 1, .groups = 96}},
    {"grouped", {8, 14, 14, 256}, {256, 3, 3, 8}, {.padding = 1, .groups = 32}},
    {"dilated", {8, 14, 14, 64}, {64, 3, 3, 64}, {.padding = 2, .dilation = 2}},
    {"odd sizes", {2, 5, 6, 3}, {4, 3, 2, 3}, {}},
};

cuda::ConvolutionCall call_of(const Sample& sample, ConvPass pass, Dtype dtype) {
  Shape y = conv2d_shape(sample.x, sample.weight, sample.options);
  return {
      .shape = ConvShape(sample.x, sample.weight, y, sample.options), .pass = pass, .dtype = dtype};
}

// Says so and returns true where the library is missing: brim is built with its headers alone.
bool skipped() {
  try {
    cuda::Library("libcudnn.so.9");
    return false;
  } catch (const DeviceError& error) {
    MESSAGE("skipped: cuDNN's engines (", error.what(), ")");
    return true;
  }
}

}  // namespace

TEST_CASE("cuda convolution: there is a deterministic engine for every pass, below the cap") {
  if (skipped()) return;
  for (const Sample& sample : kSamples)
    for (ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight})
      for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
        CAPTURE(to_string(dtype));
        CAPTURE(sample.name);
        CAPTURE(static_cast<int>(pass));
        auto choice = cuda::choose_engine(call_of(sample, pass, dtype), kProperties);
        CHECK(choice.workspace >= 0);
        CHECK(choice.workspace <= cuda::kWorkspaceCap);
        auto again = cuda::choose_engine(call_of(sample, pass, dtype), kProperties);
        CHECK(again.engine == choice.engine);
        CHECK(again.workspace == choice.workspace);
      }
}

TEST_CASE("cuda convolution: there is one that adds a bias to halves before it rounds them") {
  if (skipped()) return;
  for (const Sample& sample : kSamples)
    for (Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
      CAPTURE(sample.name);
      CAPTURE(to_string(dtype));
      cuda::ConvolutionCall call = call_of(sample, ConvPass::forward, dtype);
      call.bias = true;
      auto choice = cuda::choose_engine(call, kProperties);
      CHECK(choice.workspace >= 0);
      CHECK(choice.workspace <= cuda::kWorkspaceCap);
    }
}

TEST_CASE("cuda convolution: shapes that do not go together are cuDNN's error, named") {
  if (skipped()) return;
  cuda::ConvolutionCall call = call_of(kSamples[1], ConvPass::forward, Dtype::float32);
  call.shape.p += 1;
  CHECK_THROWS_WITH_AS(cuda::choose_engine(call, kProperties),
                       doctest::Contains("cudnn: cudnnBackendFinalize failed: CUDNN_STATUS_"),
                       DeviceError);
}

TEST_CASE("cuda convolution: without a GPU it is refused, and the program lives") {
  if (cuda::device_count() > 0) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  auto call = call_of(kSamples[0], ConvPass::forward, Dtype::float32);
  CHECK_THROWS_AS(cuda::find_convolution(call, Device::cuda()), DeviceError);
}

TEST_CASE("cuda workspace: begins on 256 bytes wherever the scratch does, and stays inside") {
  alignas(256) char buffer[1024];
  for (int64_t shift : {0, 64, 128, 192}) {
    ScratchCursor cursor(buffer + shift);
    char* workspace = cuda::take_workspace(cursor, 500);
    CHECK(reinterpret_cast<uintptr_t>(workspace) % 256 == 0);
    CHECK(workspace >= buffer + shift);
    CHECK(workspace + 500 <= buffer + shift + cuda::workspace_scratch(500));
  }
  ScratchCursor cursor(buffer);
  CHECK(cuda::take_workspace(cursor, 0) == nullptr);
  CHECK(cuda::workspace_scratch(0) == 0);
}

TEST_CASE("cuda workspace: alignment is the address's, up to what every buffer starts on") {
  auto at = [](uintptr_t address) { return cuda::alignment_of(reinterpret_cast<void*>(address)); };
  CHECK(at(0) == 64);
  CHECK(at(4096) == 64);
  CHECK(at(4096 + 48) == 16);
  CHECK(at(4096 + 4) == 4);
}
