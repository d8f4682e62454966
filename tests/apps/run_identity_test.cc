// Proves what a plan and what a checkpoint of a run know it by: settings that change its bytes are
// in the plan's identity, those that change its numbers in the checkpoint's, and no others.
#include "brim/apps/support/run_identity.h"

#include <doctest/doctest.h>

#include <functional>

#include "brim/base/parallel.h"
#include "brim/apps/support/algorithm_flags.h"
#include "brim/apps/support/train_checkpoints.h"
#include "brim/apps/support/train_plan.h"
#include "brim/ops/library_version.h"

using namespace brim;
using namespace brim::apps;

namespace {

struct Identity {
  std::string bytes;
  io::Metadata numbers;
};

Identity identity_after(const std::function<void(TrainFlags&)>& change) {
  TrainFlags flags;
  flags.batch_text = "4";
  flags.effective_batch = 8;
  change(flags);
  check_flags(flags);
  set_algorithms(flags);
  TrainData data = open_data(flags);
  return {bytes_identity(flags, data, rehearsal_of(flags, data, flags.batch)),
          numbers_identity(flags, data)};
}

struct Change {
  const char* name;
  bool bytes, numbers;
  std::function<void(TrainFlags&)> make;
};

}  // namespace

TEST_CASE("bytes and numbers of a run each follow from what they are known by") {
  const Identity before = identity_after([](TrainFlags&) {});
  const std::vector<Change> changes{
      {"model", true, true, [](TrainFlags& f) { f.model = "mobilenet_v2"; }},
      {"size", true, true, [](TrainFlags& f) { f.size = 40; }},
      {"steps", true, true, [](TrainFlags& f) { f.steps = 7; }},
      {"effective batch", true, true, [](TrainFlags& f) { f.effective_batch = 12; }},
      {"optimizer", true, true, [](TrainFlags& f) { f.optimizer.name = "adamw"; }},
      {"momentum", true, true, [](TrainFlags& f) { f.optimizer.momentum = 0; }},
      {"no decay", true, true, [](TrainFlags& f) { f.optimizer.no_decay = {"norm"}; }},
      {"ema", true, true, [](TrainFlags& f) { f.optimizer.ema = 0.9; }},
      {"freeze", true, true, [](TrainFlags& f) { f.optimizer.freeze = {"conv1"}; }},
      {"clip", true, true, [](TrainFlags& f) { f.optimizer.clip.norm = 1; }},
      {"mixup", true, true, [](TrainFlags& f) { f.augment.mix.mixup = 0.2; }},
      {"label smoothing", true, true, [](TrainFlags& f) { f.label_smoothing = 0.1; }},
      {"seed", false, true, [](TrainFlags& f) { f.seed = 9; }},
      {"rate", false, true, [](TrainFlags& f) { f.optimizer.rate = 0.5; }},
      {"weight decay", false, true, [](TrainFlags& f) { f.optimizer.weight_decay = 0.1; }},
      {"schedule", false, true, [](TrainFlags& f) { f.schedule = "constant"; }},
      {"warm-up", false, true, [](TrainFlags& f) { f.warmup = 3; }},
      {"color", false, true, [](TrainFlags& f) { f.augment.color_jitter_text = "0.1,0,0,0"; }},
      {"bad images", false, true, [](TrainFlags& f) { f.skip_bad_images = true; }},
      {"batch", true, false, [](TrainFlags& f) { f.batch_text = "2"; }},
      {"fused update", true, false,
       [](TrainFlags& f) {
         f.batch_text = "8";
         f.fused_update = true;
       }},
      {"budget", false, false, [](TrainFlags& f) { f.budget_text = "1GiB"; }},
      {"workers", false, false, [](TrainFlags& f) { f.workers = 1; }},
      {"early stop", false, false, [](TrainFlags& f) { f.early_stop = 2; }}};
  for (const Change& change : changes) {
    CAPTURE(change.name);
    const Identity after = identity_after(change.make);
    CHECK((after.bytes != before.bytes) == change.bytes);
    CHECK((after.numbers != before.numbers) == change.numbers);
  }
}

TEST_CASE("threads are part of a plan's question, and of no checkpoint's") {
  const int threads = num_threads();
  const Identity before = identity_after([](TrainFlags&) {});
  set_num_threads(threads + 1);
  const Identity after = identity_after([](TrainFlags&) {});
  set_num_threads(threads);
  CHECK(before.bytes != after.bytes);
  CHECK(before.numbers == after.numbers);
}

TEST_CASE("how a GPU computes is part of both, and of neither where nothing is asked for") {
  const auto on_gpu = [](TrainFlags& f) { f.device = Device::cuda(); };
  const Identity before = identity_after(on_gpu);
  for (bool TrainFlags::*flag : {&TrainFlags::tf32, &TrainFlags::cudnn_benchmark}) {
    const Identity after = identity_after([&](TrainFlags& f) {
      on_gpu(f);
      f.*flag = true;
    });
    CHECK(before.bytes != after.bytes);
    CHECK(before.numbers != after.numbers);
  }
  CHECK(identity_after(on_gpu).bytes == before.bytes);
}

TEST_CASE("a plan and a checkpoint know the library that computed, and another one is named") {
  const std::string now = library_version();
  CHECK(now.starts_with("oneDNN "));
  CHECK(identity_after([](TrainFlags&) {}).bytes.find(", " + now) != std::string::npos);
  CHECK(other_library({{kLibraryNote, now}}) == "");
  CHECK(other_library({}) == "");
  CHECK(other_library({{kLibraryNote, "oneDNN 1.0.0"}}) ==
        "; it was computed with oneDNN 1.0.0, and is now with " + now +
            ": numbers are the same up to rounding");
}
