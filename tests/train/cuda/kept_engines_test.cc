// Engines that cuDNN chose for a GPU that is described, through the file and back: the next process
// computes with the same ones, whatever it would choose by itself.
#include <doctest/doctest.h>

#include <vector>

#include "brim/base/error.h"
#include "brim/ops/cuda/convolution.h"
#include "brim/tests/support/cudnn_skip.h"
#include "brim/tests/support/described_gpu.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/train/engine_file.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr const char* kKind = "NVIDIA H200, 9.0, cuDNN 9";

std::vector<cuda::ConvolutionCall> calls() {
  std::vector<cuda::ConvolutionCall> all;
  const Conv2dOptions options{.stride = 2, .padding = 1};
  const Shape x{8, 56, 56, 64}, weight{128, 3, 3, 64};
  const ConvShape shape(x, weight, conv2d_shape(x, weight, options), options);
  for (ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight})
    for (Dtype dtype : {Dtype::float32, Dtype::float16})
      for (bool tf32 : {false, true})
        all.push_back({.shape = shape, .pass = pass, .dtype = dtype, .allow_tf32 = tf32});
  return all;
}

}  // namespace

TEST_CASE("kept engines: chosen, written, read and rebuilt they are the same") {
  if (skipped_without_cudnn()) return;
  TempFolder folder;
  const EngineFileOptions options{.folder = folder.path(), .kind = kKind};
  const Device first = Device::cuda(100), second = Device::cuda(101);
  // The last of the candidates, so that nobody comes to it by heuristics.
  auto slow_first = [](size_t i) -> std::optional<double> { return -static_cast<double>(i); };
  std::vector<EngineChoice> chosen;
  for (const auto& call : calls())
    chosen.push_back(cuda::choose_engine(call, kDescribedGpu, &engine_table(first), slow_first));
  keep_engines(first, options);
  take_up_engines(second, options);
  size_t i = 0, unlike_heuristics = 0;
  for (const auto& call : calls()) {
    CAPTURE(cuda::name_of(call));
    const EngineChoice again = cuda::choose_engine(call, kDescribedGpu, &engine_table(second));
    const EngineChoice& before = chosen[i++];
    CHECK(again.engine == before.engine);
    CHECK(again.knobs == before.knobs);
    CHECK(again.workspace == before.workspace);
    if (cuda::choose_engine(call, kDescribedGpu).knobs != again.knobs) ++unlike_heuristics;
  }
  CHECK(unlike_heuristics > 0);
  CHECK(engine_table(second).chosen() == engine_table(first).chosen());
}

TEST_CASE("kept engines: without the file they are chosen anew") {
  if (skipped_without_cudnn()) return;
  TempFolder folder;
  std::vector<std::string> said;
  const EngineFileOptions options{.folder = folder.path(),
                                  .kind = kKind,
                                  .say = [&](const std::string& text) { said.push_back(text); }};
  const Device gpu = Device::cuda(102);
  const std::string damaged = "{}";
  folder.write(engine_file(kKind, "."),
               std::span(reinterpret_cast<const uint8_t*>(damaged.data()), damaged.size()));
  take_up_engines(gpu, options);
  CHECK(said.size() == 1);
  for (const auto& call : calls())
    CHECK(cuda::choose_engine(call, kDescribedGpu, &engine_table(gpu)) ==
          cuda::choose_engine(call, kDescribedGpu));
}
