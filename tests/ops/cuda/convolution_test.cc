// Which engines cuDNN would run, asked for a GPU that is described and need not be there: graphs,
// their layouts and the choice are tested without one.
#include "brim/ops/cuda/convolution.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "brim/base/cuda/devices.h"
#include "brim/base/error.h"
#include "brim/ops/cuda/workspace.h"
#include "brim/tests/support/cudnn_skip.h"
#include "brim/tests/support/described_gpu.h"

using namespace brim;
using testing::kDescribedGpu;

namespace {

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

}  // namespace

TEST_CASE("cuda convolution: there is a deterministic engine for every pass, below the cap") {
  if (testing::skipped_without_cudnn()) return;
  for (const Sample& sample : kSamples)
    for (ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight})
      for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
        CAPTURE(to_string(dtype));
        CAPTURE(sample.name);
        CAPTURE(static_cast<int>(pass));
        auto choice = cuda::choose_engine(call_of(sample, pass, dtype), kDescribedGpu);
        CHECK(choice.workspace >= 0);
        CHECK(choice.workspace <= cuda::kWorkspaceCap);
        auto again = cuda::choose_engine(call_of(sample, pass, dtype), kDescribedGpu);
        CHECK(again.engine == choice.engine);
        CHECK(again.workspace == choice.workspace);
      }
}

TEST_CASE("cuda convolution: there is one that adds a bias to halves before it rounds them") {
  if (testing::skipped_without_cudnn()) return;
  for (const Sample& sample : kSamples)
    for (Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
      CAPTURE(sample.name);
      CAPTURE(to_string(dtype));
      cuda::ConvolutionCall call = call_of(sample, ConvPass::forward, dtype);
      call.bias = true;
      auto choice = cuda::choose_engine(call, kDescribedGpu);
      CHECK(choice.workspace >= 0);
      CHECK(choice.workspace <= cuda::kWorkspaceCap);
    }
}

TEST_CASE("cuda convolution: shapes that do not go together are cuDNN's error, named") {
  if (testing::skipped_without_cudnn()) return;
  cuda::ConvolutionCall call = call_of(kSamples[1], ConvPass::forward, Dtype::float32);
  call.shape.p += 1;
  CHECK_THROWS_WITH_AS(cuda::choose_engine(call, kDescribedGpu),
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

namespace {

const std::vector<ConvPass> kPasses{ConvPass::forward, ConvPass::backward_data,
                                    ConvPass::backward_weight};

EngineChoices single(const cuda::ConvolutionCall& call, const EngineChoice& choice) {
  return {{cuda::name_of(call), choice}};
}

/// What a table that offers `kept` comes to.
EngineChoice choose_with(const cuda::ConvolutionCall& call, const EngineChoice& kept) {
  EngineTable table;
  table.offer(single(call, kept));
  EngineChoice choice = cuda::choose_engine(call, kDescribedGpu, &table);
  CHECK(table.chosen() == single(call, choice));
  return choice;
}

/// Says that the `best` of the candidates is the fastest, where there are so many.
EngineTimer favouring(size_t best, size_t& most) {
  return [best, &most](size_t i) -> std::optional<double> {
    most = std::max(most, i);
    return i == best ? 1 : 2;
  };
}

}  // namespace

TEST_CASE("cuda convolution: an engine is rebuilt from what was kept of it") {
  if (testing::skipped_without_cudnn()) return;
  for (const Sample& sample : kSamples)
    for (ConvPass pass : kPasses)
      for (Dtype dtype : {Dtype::float32, Dtype::float16}) {
        CAPTURE(sample.name);
        CAPTURE(static_cast<int>(pass));
        CAPTURE(to_string(dtype));
        const auto call = call_of(sample, pass, dtype);
        EngineTable table;
        const EngineChoice choice = cuda::choose_engine(call, kDescribedGpu, &table);
        CHECK(table.lasting() == single(call, choice));
        // Marked, so that it is seen to come from the table.
        EngineChoice kept = choice;
        kept.timed = true;
        EngineTable later;
        later.offer(single(call, kept));
        CHECK(cuda::choose_engine(call, kDescribedGpu, &later) == choice);
        CHECK(later.chosen() == single(call, kept));
        CHECK(later.lasting().empty());
      }
}

TEST_CASE("cuda convolution: what was kept and does not fit is chosen anew") {
  if (testing::skipped_without_cudnn()) return;
  const auto call = call_of(kSamples[1], ConvPass::forward, Dtype::float32);
  const EngineChoice choice = cuda::choose_engine(call, kDescribedGpu);
  auto with = [&](auto change) {
    EngineChoice kept = choice;
    change(kept);
    return choose_with(call, kept);
  };
  CHECK(with([](EngineChoice& c) { c.engine = 1'000'000; }) == choice);
  CHECK(with([](EngineChoice& c) { c.engine = -1; }) == choice);
  CHECK(with([](EngineChoice& c) { c.workspace += 1; }) == choice);
  CHECK(with([](EngineChoice& c) { c.knobs = {{1000, 0}}; }) == choice);
  CHECK(with([](EngineChoice& c) { c.knobs = {{-5, 0}}; }) == choice);
  CHECK(with([](EngineChoice& c) {
          c.knobs = {{0, int64_t{1} << 62}, {2, -(int64_t{1} << 62)}};
        }) == choice);
}

TEST_CASE("cuda convolution: no kept engine is less exact than what is asked for") {
  if (testing::skipped_without_cudnn()) return;
  int differ = 0;
  for (const Sample& sample : kSamples)
    for (ConvPass pass : kPasses) {
      CAPTURE(sample.name);
      auto call = call_of(sample, pass, Dtype::float32);
      const EngineChoice exact = cuda::choose_engine(call, kDescribedGpu);
      call.allow_tf32 = true;
      const EngineChoice rounded = cuda::choose_engine(call, kDescribedGpu);
      CHECK(rounded.workspace <= cuda::kWorkspaceCap);
      CHECK(choose_with(call, rounded) == rounded);
      call.allow_tf32 = false;
      if (rounded == exact) continue;
      ++differ;
      CHECK(choose_with(call, rounded) == exact);
    }
  CHECK(differ > 0);  // there are engines that round to TF32, and they are the first then
}

TEST_CASE("cuda convolution: the fastest engine is taken, and taken again") {
  if (testing::skipped_without_cudnn()) return;
  auto call = call_of(kSamples[1], ConvPass::forward, Dtype::float16);
  call.benchmark = true;
  size_t most = 0;
  const EngineChoice first = cuda::choose_engine(call, kDescribedGpu, nullptr, favouring(0, most));
  REQUIRE(most > 0);
  CHECK(most < 8);
  EngineTable table;
  const EngineChoice last = cuda::choose_engine(call, kDescribedGpu, &table, favouring(most, most));
  CHECK(first.timed);
  CHECK(last.timed);
  CHECK(first != last);
  CHECK(table.lasting() == single(call, last));

  EngineTable later;
  later.offer(table.lasting());
  const EngineChoice again = cuda::choose_engine(call, kDescribedGpu, &later, favouring(0, most));
  CHECK(again.engine == last.engine);
  CHECK(again.knobs == last.knobs);
  CHECK(again.workspace == last.workspace);
  CHECK(later.chosen() == single(call, last));
}

TEST_CASE("cuda convolution: where nothing can be timed the heuristics choose, and that is kept") {
  if (testing::skipped_without_cudnn()) return;
  auto call = call_of(kSamples[1], ConvPass::forward, Dtype::float16);
  const EngineChoice plain = cuda::choose_engine(call, kDescribedGpu);
  call.benchmark = true;
  EngineTable table;
  const EngineChoice choice = cuda::choose_engine(
      call, kDescribedGpu, &table, [](size_t) -> std::optional<double> { return {}; });
  CHECK(choice == plain);
  CHECK_FALSE(choice.timed);
  CHECK(table.lasting() == single(call, choice));
  // Without a timer it is not known yet which is the fastest.
  EngineTable untimed;
  CHECK(cuda::choose_engine(call, kDescribedGpu, &untimed) == plain);
  CHECK(untimed.lasting().empty());
  CHECK(untimed.chosen() == single(call, plain));
}

TEST_CASE("cuda convolution: names tell every two calls apart that differ") {
  const auto call = call_of(kSamples[1], ConvPass::forward, Dtype::float32);
  std::set<std::string> names{cuda::name_of(call)};
  auto add = [&](auto change) {
    cuda::ConvolutionCall other = call;
    change(other);
    CHECK(names.insert(cuda::name_of(other)).second);
  };
  using Call = cuda::ConvolutionCall;
  for (int64_t ConvShape::*size :
       {&ConvShape::n, &ConvShape::h, &ConvShape::w, &ConvShape::c, &ConvShape::k, &ConvShape::r,
        &ConvShape::s, &ConvShape::p, &ConvShape::q, &ConvShape::groups})
    add([size](Call& c) { c.shape.*size *= 64; });
  for (Pair ConvShape::*pair : {&ConvShape::stride, &ConvShape::padding, &ConvShape::dilation}) {
    add([pair](Call& c) { (c.shape.*pair).h += 7; });
    add([pair](Call& c) { (c.shape.*pair).w += 7; });
  }
  add([](Call& c) { c.pass = ConvPass::backward_data; });
  add([](Call& c) { c.pass = ConvPass::backward_weight; });
  add([](Call& c) { c.dtype = Dtype::float64; });
  add([](Call& c) { c.alignment = 16; });
  add([](Call& c) { c.bias = true; });
  add([](Call& c) { c.allow_tf32 = true; });
  add([](Call& c) { c.benchmark = true; });
}
