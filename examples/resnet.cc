// Trains a ResNet-18 on pictures, DIR/train/<class>/*.jpg and DIR/val/<class>/*.jpg, within a
// budget of bytes; data sets in the formats of CIFAR and MNIST are read too.
//   bazel run //examples:resnet -- DIR [2GiB [20]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "brim/brim.h"

using namespace brim;

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: resnet DIR [BYTES [EPOCHS]]\n"), 1;
  if (const char* started_in = std::getenv("BUILD_WORKING_DIRECTORY"))  // by bazel run
    std::filesystem::current_path(started_in);
  const int64_t bytes = argc > 2 ? parse_bytes(argv[2]) : 2 * GiB;
  const int epochs = argc > 3 ? std::atoi(argv[3]) : 20;

  const auto train = data::open_dataset(argv[1], "train"), val = data::open_dataset(argv[1], "val");
  const auto classes = static_cast<int64_t>(train->class_names().size());
  const int native = data::native_size(argv[1]), size = native > 0 ? native : 224;

  const Recipe recipe{
      .model = [=] { return nn::make_model("resnet18", {.classes = classes}); },
      .optimizer = [](nn::Module& model) { return optim::sgd(model, {.momentum = 0.9}); },
      .batch = image_batch(size),
      .score = classification_score};
  const TrainingPlan plan =
      plan_training(recipe, {.bytes = bytes, .batch = std::min<int64_t>(64, train->size())});
  std::printf("%s\n", plan.table().c_str());
  if (!plan.fits()) return std::fprintf(stderr, "%s\n", plan.why_not().c_str()), 1;

  ImageSource photos(train, {.batch = plan.batch(), .size = size, .augment = {.flip = true}});
  ImageSource unseen(val, {.batch = plan.batch(), .size = size, .clamp_batch = true});
  Training trained = plan.train(
      photos, {.epochs = epochs,
               .schedule = optim::CosineSchedule{.rate = 0.02,
                                                 .steps = epochs * (train->size() / plan.batch())},
               .on_epoch = [&](int64_t epoch, Training& training) {
                 std::printf("epoch %lld: accuracy %.1f%%\n", static_cast<long long>(epoch),
                             100 * training.evaluate(unseen));
               }});
  std::printf("held %s, of %s\n", format_bytes(trained.account()->stats().peak_reserved).c_str(),
              format_bytes(bytes).c_str());
  nn::save_weights(trained.model(), "resnet18.safetensors", {.model = "resnet18"});
} catch (const std::exception& error) {
  return std::fprintf(stderr, "resnet: %s\n", error.what()), 1;
}
