// Fine-tunes a MobileNet V2 from a file of weights on pictures of other classes: a new head learns
// first, and then all of it at a low rate.
//   bazel run //examples:finetune -- DIR mobilenet_v2.safetensors
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "brim/brim.h"

using namespace brim;

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: finetune DIR WEIGHTS\n"), 1;
  if (const char* started_in = std::getenv("BUILD_WORKING_DIRECTORY"))  // by bazel run
    std::filesystem::current_path(started_in);
  const auto pictures = data::open_dataset(argv[1], "train");
  const auto classes = static_cast<int64_t>(pictures->class_names().size());
  const int native = data::native_size(argv[1]), size = native > 0 ? native : 224;
  const auto train = [&](const char* what, Recipe recipe, int64_t epochs, double rate) {
    const TrainingPlan plan =
        plan_training(recipe, {.bytes = 1 * GiB, .batch = std::min<int64_t>(32, pictures->size())});
    if (!plan.fits()) raise<ValueError>("finetune", "{}", plan.why_not());
    ImageSource source(pictures, {.batch = plan.batch(), .size = size, .augment = {.flip = true}});
    double last = 0;
    Training trained =
        plan.train(source, {.epochs = epochs,
                            .schedule = optim::ConstantSchedule{.rate = rate},
                            .on_update = [&](int64_t, double loss) { last = loss; }});
    std::printf("%s: held %s, loss %.3f\n", what,
                format_bytes(trained.account()->stats().peak_reserved).c_str(), last);
    nn::save_weights(trained.model(), "finetuned.safetensors", {.model = "mobilenet_v2"});
  };

  Recipe recipe{.model = [=] { return nn::make_model("mobilenet_v2", {.classes = classes}); },
                .optimizer = [](nn::Module& model) { return optim::adamw(model); },
                .values =
                    [&](nn::Module& model) {
                      nn::initialize(model, /*seed=*/0);
                      nn::load_weights(model, argv[2], {.new_head = true});
                    },
                .batch = image_batch(size)};
  Recipe head = recipe;
  head.model = [model = recipe.model] {
    const auto made = model();
    made->freeze("features");
    return made;
  };
  train("head", head, /*epochs=*/2, /*rate=*/1e-3);
  recipe.values = [](nn::Module& model) { nn::load_weights(model, "finetuned.safetensors"); };
  train("all", recipe, /*epochs=*/3, /*rate=*/1e-4);
} catch (const std::exception& error) {
  return std::fprintf(stderr, "finetune: %s\n", error.what()), 1;
}
