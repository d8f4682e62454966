// cuDNN's engines for every convolution of the bundled networks on common cards, in every precision
// and for small and large batches: all of it asked for GPUs that are described, by the code that
// asks on a GPU. A convolution without an engine would run widened, or not at all.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "brim/base/gpu_description.h"
#include "brim/core/launch.h"
#include "brim/ops/tf32.h"
#include "brim/tests/support/cudnn_skip.h"
#include "brim/tests/train/planned_training.h"
#include "brim/train/cards.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// Convolutions of halves that run in float32.
class WidenedConvolutions final : public LaunchObserver {
 public:
  void launched(const LaunchEvent& event) override {
    convolutions_ += std::string_view(event.kernel).starts_with("conv2d");
    widened_ += std::string_view(event.kernel).starts_with("conv2d") && event.widened.has_value();
  }
  int64_t convolutions() const { return convolutions_; }
  int64_t widened() const { return widened_; }

 private:
  int64_t convolutions_ = 0, widened_ = 0;
};

struct Precision {
  const char* name;
  Dtype dtype;
  bool tf32 = false;
};
constexpr Precision kPrecisions[] = {{"float16", Dtype::float16},
                                     {"bfloat16", Dtype::bfloat16},
                                     {"float32", Dtype::float32},
                                     {"TF32", Dtype::float32, true}};

/// One update on a GPU that is not here; what it launches is asked for, and nothing runs.
void rehearse_update(const char* model, int64_t batch, Dtype precision) {
  RehearsalOptions options = rehearsal_options({.model = model, .size = 224, .batch = batch});
  options.trainer.precision = precision;
  measure_on_meta(memory::planner_named("direct"), [&](const auto& state_is_held) {
    rehearse(options.one_update(batch), state_is_held);
  });
}

}  // namespace

TEST_CASE("cudnn: common cards have an engine for every convolution of the bundled networks") {
  if (skipped_without_cudnn()) return;
  for (const char* card : {"h100-80gb", "h200-141gb", "a100-80gb", "l4-24gb", "rtx4090-24gb",
                           "b200-180gb", "t4-16gb"}) {
    REQUIRE(gpu_description(card) != nullptr);
    const StandInScope scope(stand_in_for(*find_card(card)));
    for (const Precision& precision : kPrecisions)
      for (int64_t batch : {1, 32, 4000})
        for (const char* model : {"resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3_large"}) {
          CAPTURE(card);
          CAPTURE(precision.name);
          CAPTURE(batch);
          CAPTURE(model);
          const AllowTf32Scope tf32(precision.tf32);
          WidenedConvolutions seen;
          {
            const LaunchObserverScope watched(seen);
            CHECK_NOTHROW(rehearse_update(model, batch, precision.dtype));
          }
          CHECK(seen.convolutions() > 20);
          // Turing has no bfloat16.
          const bool is_there =
              card != std::string_view("t4-16gb") || precision.dtype != Dtype::bfloat16;
          CHECK((seen.widened() == 0) == is_there);
        }
  }
}

TEST_CASE("a plan for a card that is described is not taken for one that is here") {
  if (skipped_without_cudnn()) return;
  const StandInScope scope(stand_in_for(*find_card("h200-141gb")));
  const std::string identity = plan_identity(rehearsal_options({.model = "resnet20"}));
  CHECK_MESSAGE(identity.find("NVIDIA H200, 9.0, cuDNN ") != std::string::npos, identity);
  CHECK_MESSAGE(identity.find(" as described") != std::string::npos, identity);
}
