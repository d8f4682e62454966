// The train program from outside: what it accepts, what it refuses, what it prints.
#include <cmath>
#include <filesystem>
#include <tuple>

#include "brim/base/cuda/devices.h"
#include "brim/apps/support/train_data.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/pictures.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim::testing;

TEST_CASE("help shows the flags with examples") {
  Finished run = train("--help");
  CHECK(run.code == 0);
  for (const char* text : {"--budget", "--skip-bad-images", "mobilenet_v3_small", "Examples:"})
    CHECK(run.out.find(text) != std::string::npos);
}

TEST_CASE("mistyped flags and names are answered with the nearest known one") {
  check_error("--modle resnet20", "unknown flag --modle; did you mean '--model'?");
  check_error("--model resnet81", "no model is called 'resnet81'; did you mean 'resnet18'?");
  check_error("--planner chaching", "did you mean 'caching'?");
  check_error("--planner first-fit", "expected arena, caching, direct");
  check_error("--schedule cosin", "did you mean 'cosine'?");
  check_error("stray", "unexpected argument 'stray'");
}

TEST_CASE("values out of range are refused by name") {
  check_error("--lr -0.1", "--lr");
  check_error("--lr 0", "--lr");
  check_error("--steps 0", "--steps");
  check_error("--classes -5 --data synthetic", "--classes");
  check_error("--batch 0", "--batch");
  check_error("--batch -3", "--batch");
  check_error("--epochs -1", "--epochs");
  check_error("--workers -1", "--workers");
  check_error("--threads 0", "--threads");
  check_error("--momentum 1.5", "momentum");
  check_error("--budget 12parsecs", "parsecs");
  check_error("--size 0", "--size");
  check_error("--device tpu", "tpu");
  if (const std::string why = brim::cuda::why_no_device(); !why.empty())
    check_error("--device cuda", "--device cuda cannot train: " + why);
  check_error("--device meta", "computes nothing");
  check_error("--label-smoothing 2 --steps 1 --batch 4", "smoothing");
  check_error("--json /no/such/folder/x.json", "/no/such/folder/x.json");
}

TEST_CASE("a batch larger than the data set names both numbers") {
  Finished run = train("--batch 8001 --threads 1");
  CHECK(run.code == 1);
  CHECK(run.err.find("8001") != std::string::npos);
  CHECK(run.err.find("8000") != std::string::npos);
}

TEST_CASE("two steps on shapes print the events of the contract, and nothing else with --json -") {
  Finished run = train("--data shapes --json -" + kQuick);
  REQUIRE(run.code == 0);
  auto events = events_of(run.out);
  REQUIRE(events.size() == 5);
  CHECK(events[0]["event"] == "plan");
  CHECK(events[0]["batch"] == 4);
  CHECK(events[1]["event"] == "step");
  CHECK(events[2]["step"] == 2);
  CHECK(events[3]["event"] == "epoch");
  const json& done = events[4];
  CHECK(done["event"] == "done");
  for (const char* key :
       {"images_per_second", "step_seconds", "val_accuracy", "val_top5", "batch", "micro_batches",
        "budget_violations", "oom_events", "skipped_steps", "precision"})
    CHECK(done.contains(key));
  CHECK(done["peak_bytes"] >= done["peak_live_bytes"]);
}

TEST_CASE("progress goes to plain lines where there is no terminal") {
  TempFolder folder;
  write_pictures(folder, 8);
  Finished run = train("--batch 2 --epochs 2 --size 32 --threads 1 --data " + folder.path());
  REQUIRE(run.code == 0);
  for (const char* text : {"images/s", "live ", "peak ", " left", "accuracy"})
    CHECK(run.out.find(text) != std::string::npos);
  CHECK(run.out.find('\x1b') == std::string::npos);
  CHECK(run.out.find('\r') == std::string::npos);
}

TEST_CASE("relative paths start where the person stands, also under bazel run") {
  TempFolder folder;
  write_pictures(folder, 4);
  Finished run = run_command("BUILD_WORKING_DIRECTORY=" + folder.path() +
                             " apps/train --data . --size 32 --json events" + kQuick);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK(std::filesystem::exists(folder.path() + "/events"));
}

TEST_CASE("events that cannot be written are an error") {
  CHECK(run_command("apps/train --data shapes --json /dev/full" + kQuick).code == 1);
}

TEST_CASE("the same seed prints the same losses, whatever the workers") {
  TempFolder folder;
  write_pictures(folder, 8);
  auto losses = [&](const std::string& more) {
    std::vector<double> result;
    std::string arguments = "--size 32 --json - --data " + folder.path() + kQuick + more;
    for (const json& event : events_of(train(arguments).out))
      if (event["event"] == "step") result.push_back(event["loss"]);
    return result;
  };
  auto expected = losses("");
  CHECK(expected.size() == 2);
  CHECK(losses(" --workers 3") == expected);
  CHECK(losses(" --workers 0") == expected);
  CHECK(losses(" --planner direct") == expected);
  CHECK(losses(" --cache-images 0") == expected);
  CHECK(losses(" --seed 1") != expected);
}

TEST_CASE("synthetic data needs no files and has no accuracy") {
  Finished run =
      train("--data synthetic --model resnet20 --size 32 --classes 10 --json -" + kQuick);
  REQUIRE(run.code == 0);
  CHECK(events_of(run.out).back()["val_accuracy"].is_null());
}

TEST_CASE("pictures of one's own are trained on") {
  TempFolder folder;
  write_pictures(folder, 4);
  Finished run = train("--size 32 --data " + folder.path() + kQuick);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK(run.out.find("8 images, 8 to validate") != std::string::npos);
  CHECK(run.out.find("done: accuracy") != std::string::npos);
}

TEST_CASE("images stay decoded where they fit, but unasked not beside a CPU's budget") {
  TempFolder folder;
  write_pictures(folder, 4);
  auto keeps_images = [&](const std::string& more) {
    const Finished run = train("--size 32 --data " + folder.path() + kQuick + more);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return run.out.find(" of images") != std::string::npos;
  };
  CHECK(keeps_images(""));
  CHECK_FALSE(keeps_images(" --cache-images 0"));
  CHECK_FALSE(keeps_images(" --cache-images 1KiB"));
  CHECK_FALSE(keeps_images(" --budget 200MiB"));
  CHECK(keeps_images(" --budget 200MiB --cache-images 1MiB"));
  check_error("--data " + folder.path() + " --cache-images lots" + kQuick, "lots");
}

TEST_CASE("CIFAR's and MNIST's files are trained on at their own size") {
  TempFolder cifar, mnist;
  write_cifar10(cifar);
  write_mnist(mnist, 20);
  for (auto [folder, size, images] : {std::tuple(&cifar, "32x32", "50 images, 10 to validate"),
                                      std::tuple(&mnist, "28x28", "20 images, 20 to validate")}) {
    Finished run = train("--data " + folder->path() + " --model mobilenet_v2" + kQuick);
    CAPTURE(run.err);
    CHECK(run.code == 0);
    for (const char* text : {images, "10 classes", size, "done: accuracy"}) {
      CAPTURE(text);
      CHECK(run.out.find(text) != std::string::npos);
    }
  }
  std::filesystem::rename(mnist.path() + "/train-images-idx3-ubyte", mnist.path() + "/swap");
  std::filesystem::rename(mnist.path() + "/train-labels-idx1-ubyte",
                          mnist.path() + "/train-images-idx3-ubyte");
  std::filesystem::rename(mnist.path() + "/swap", mnist.path() + "/train-labels-idx1-ubyte");
  check_error("--data " + mnist.path(), "the two files are swapped");
}

TEST_CASE("images are augmented and mixed as the flags say, and never those to validate") {
  TempFolder folder;
  write_pictures(folder, 4);
  const std::string common = "--size 32 --json - --data " + folder.path() + kQuick;
  auto outcome = [&](const std::string& more) {
    Finished run = train(common + more);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    auto events = events_of(run.out);
    CHECK(events.back()["peak_bytes"] == events.back()["predicted_peak_bytes"]);
    CHECK(events.back()["peak_live_bytes"] == events.back()["predicted_peak_live_bytes"]);
    return std::vector<double>{events[1]["loss"], events[2]["loss"]};
  };
  const auto plain = outcome("");
  for (std::string flags : {" --color-jitter .4,.4,.4,.1", " --random-erasing 1", " --mixup 0.4",
                            " --cutmix 1", " --mixup 0.4 --cutmix 1"}) {
    CAPTURE(flags);
    const auto changed = outcome(flags);
    CHECK(changed != plain);
    CHECK(outcome(flags + " --workers 3") == changed);
  }
  brim::apps::TrainFlags flags;
  flags.data = folder.path();
  flags.size = 32;
  flags.batch = 4;
  flags.augment = {.color_jitter = {.hue = 0.1f}, .random_erasing = 0.5f};
  auto data = brim::apps::open_data(flags);
  brim::apps::open_loaders(flags, data);
  CHECK(data.train_loader->options().augment.color_jitter.hue == 0.1f);
  CHECK(data.train_loader->options().augment.random_erasing.probability == 0.5f);
  CHECK(data.validation->options().augment == brim::data::Augment());
}

TEST_CASE("augmentations that make no sense are refused by name") {
  check_error("--color-jitter 0.4", "--color-jitter: expected four numbers");
  check_error("--color-jitter 0.4,0.4,0.4,0.1,0", "--color-jitter: expected four numbers");
  check_error("--color-jitter a,b,c,d", "got 'a,b,c,d'");
  check_error("--color-jitter 0.4,0.4,0.4,0.6", "expected hue between 0 and 0.5, got 0.6");
  check_error("--random-erasing 1.5", "--random-erasing");
  check_error("--mixup 0", "--mixup");
  check_error("--cutmix 1e9", "mix: expected cutmix to be 0 or between 1e-06 and 1000");
  check_error("--data synthetic --random-erasing 0.1", "--random-erasing does nothing");
}

TEST_CASE("folders that are missing, empty or do not match are named") {
  check_error("--data /no/such/place", "/no/such/place");
  TempFolder folder;
  check_error("--data " + folder.path(), folder.path());
  write_pictures(folder, 4);
  folder.make_folder("train/empty");
  folder.make_folder("val/empty");
  check_error("--data " + folder.path(), "empty");
  std::filesystem::remove(folder.path() + "/val/empty");
  check_error("--data " + folder.path(), "empty");
}

TEST_CASE("a bad picture stops the run and is named; --skip-bad-images goes on and counts") {
  TempFolder folder;
  write_pictures(folder, 4);
  folder.write("train/cat/1.jpg", Bytes{});
  std::string arguments = "--size 32 --data " + folder.path() + kQuick;
  check_error(arguments, "train/cat/1.jpg");
  Finished run = train(arguments + " --skip-bad-images --json -");
  REQUIRE(run.code == 0);
  CHECK(events_of(run.out).back()["skipped_images"] == 1);
  Finished shown = train(arguments + " --epochs 3 --skip-bad-images");
  CHECK(shown.out.find("train/cat/1.jpg") != std::string::npos);
  CHECK(shown.out.find("1 bad image was skipped") != std::string::npos);
}

TEST_CASE("a bad picture to validate stops the run, or is left out of the accuracy") {
  TempFolder folder;
  write_pictures(folder, 4);
  folder.write("val/cat/1.jpg", Bytes{});
  std::string arguments = "--size 32 --data " + folder.path() + kQuick;
  check_error(arguments, "val/cat/1.jpg");
  Finished run = train(arguments + " --skip-bad-images --json -");
  REQUIRE(run.code == 0);
  const json done = events_of(run.out).back();
  CHECK(done["skipped_images"] == 1);
  double right = 7 * done["val_accuracy"].get<double>();  // of the seven others
  CHECK(right == doctest::Approx(std::round(right)));
}

TEST_CASE("pictures are cropped, flipped and normalised as their size and source want") {
  using brim::data::Augment;
  TempFolder folder, mnist;
  write_pictures(folder, 4);
  write_mnist(mnist, 10);
  auto opened = [](const std::string& source, int size) {
    brim::apps::TrainFlags flags;
    flags.data = source;
    flags.size = size;
    flags.batch = 4;
    auto data = brim::apps::open_data(flags);
    brim::apps::open_loaders(flags, data);
    return data;
  };
  auto small = opened(folder.path(), 32), large = opened(folder.path(), 224),
       shapes = opened("shapes", 32), digits = opened(mnist.path(), 28);
  CHECK(small.train_loader->options().augment.kind == Augment::Kind::padded_crop);
  CHECK(small.train_loader->options().augment.padding_mode == Augment::PaddingMode::reflect);
  CHECK(small.train_loader->options().augment.flip);
  CHECK(small.validation->options().augment == Augment());
  CHECK(large.train_loader->options().augment.kind == Augment::Kind::random_resized_crop);
  CHECK(large.train_loader->options().augment.flip);
  CHECK(large.validation->options().augment == Augment{.resize = 256});
  CHECK(shapes.train_loader->options().augment == Augment());
  CHECK(shapes.validation->options().augment == Augment());
  CHECK(digits.train_loader->options().augment.kind == Augment::Kind::padded_crop);
  CHECK_FALSE(digits.train_loader->options().augment.flip);
  CHECK(digits.input.mean == std::vector{0.1307f, 0.1307f, 0.1307f});
  CHECK(small.input.mean == std::vector{0.4914f, 0.4822f, 0.4465f});
  CHECK(large.input.mean == std::vector{0.485f, 0.456f, 0.406f});
  for (auto* data : {&small, &large, &shapes}) {
    CHECK(data->train_loader->options().shuffle);
    CHECK(data->train_loader->options().drop_last);
    CHECK_FALSE(data->validation->options().shuffle);
    CHECK_FALSE(data->validation->options().drop_last);
  }
}

TEST_CASE("a rate that makes the loss explode is caught, and the module and op are named") {
  Finished run =
      train("--data shapes --lr 1e30 --schedule constant --batch 4 --steps 20 --threads 1");
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(run.err.find("first seen in the") != std::string::npos);
}
