// The train program from outside: what it accepts, what it refuses, what it prints.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "brim/examples/support/train_data.h"
#include "brim/memory/host_memory.h"
#include "brim/tests/support/pictures.h"
#include "brim/tests/support/small_datasets.h"
#include "brim/tests/support/subprocess.h"

using namespace brim::testing;
using nlohmann::json;

namespace {

Finished train(const std::string& arguments) { return run_command("examples/train " + arguments); }

void check_error(const std::string& arguments, const std::string& text, int code = 1) {
  CAPTURE(arguments);
  Finished run = train(arguments);
  CAPTURE(run.err);
  CHECK(run.code == code);
  CHECK(run.err.find(text) != std::string::npos);
  // One line, so that people read it and scripts can take it.
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

std::vector<json> events_of(const std::string& text) {
  std::vector<json> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  return events;
}

const std::string kQuick = " --batch 4 --steps 2 --threads 1 --workers 1";

}  // namespace

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
  check_error("--planner first-fit", "expected arena, caching or direct");
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
  check_error("--device cuda", "--device cuda cannot train: ");
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
       {"images_per_second", "step_seconds", "val_accuracy", "batch", "micro_batches",
        "budget_violations", "oom_events", "skipped_steps", "precision"})
    CHECK(done.contains(key));
  CHECK(done["peak_bytes"] >= done["peak_live_bytes"]);
}

TEST_CASE("what is predicted before the first byte is what training and evaluation hold") {
  TempFolder folder;
  write_pictures(folder, 7);  // of 14: batches of 4, then one of 2, evaluated after each epoch
  for (std::string planner : {"arena", "direct", "caching"})
    for (std::string model : {"resnet20", "mobilenet_v2"}) {
      CAPTURE(planner);
      CAPTURE(model);
      Finished run = train("--size 32 --epochs 3 --batch 4 --threads 1 --json - --data " +
                           folder.path() + " --planner " + planner + " --model " + model);
      CAPTURE(run.err);
      REQUIRE(run.code == 0);
      auto events = events_of(run.out);
      const json &plan = events.front(), &done = events.back();
      CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
      CHECK(done["peak_live_bytes"] == done["predicted_peak_live_bytes"]);
      CHECK(plan["predicted_peak_bytes"] == done["predicted_peak_bytes"]);
      CHECK(done["mismatches"] == 0);
    }
}

TEST_CASE("the arena planner is the default; a budget of its peak runs, a unit less does not") {
  const std::string common =
      "--data synthetic --model resnet20 --size 32 --classes 10 --json - " + kQuick;
  Finished run = train(common);
  REQUIRE(run.code == 0);
  const json done = events_of(run.out).back();
  CHECK(done["peak_bytes"] == done["peak_live_bytes"]);  // the arena has no gap
  int64_t peak = done["predicted_peak_bytes"];
  CHECK(done["peak_bytes"] == peak);
  CHECK(train(common + " --budget " + std::to_string(peak)).code == 0);
  Finished refused = train(common + " --budget " + std::to_string(peak - 64));
  CHECK(refused.code == 2);
  CHECK(refused.err.find(std::to_string(peak)) != std::string::npos);
}

TEST_CASE("a plan is kept, and used again where the question is the same") {
  TempFolder folder;
  const std::string file = folder.path() + "/resnet20.plan";
  const std::string common =
      "--data synthetic --model resnet20 --size 32 --classes 10 --json - " + kQuick;
  Finished first = train(common + " --save-plan " + file);
  REQUIRE(first.code == 0);
  CHECK(std::filesystem::file_size(file) > 10'000);
  Finished again = train(common + " --plan " + file);
  REQUIRE(again.code == 0);
  CHECK(again.err.empty());
  const json before = events_of(first.out).back(), after = events_of(again.out).back();
  for (const char* key : {"peak_bytes", "predicted_peak_bytes", "peak_live_bytes",
                          "predicted_peak_live_bytes", "mismatches"}) {
    CAPTURE(key);
    CHECK(before[key] == after[key]);
  }
  CHECK(events_of(first.out)[2]["loss"] == events_of(again.out)[2]["loss"]);

  Finished other = train(common + " --batch 6 --plan " + file);
  CHECK(other.code == 0);
  CHECK(other.err.find("planning again") != std::string::npos);
  CHECK(other.err.find("batch 4") != std::string::npos);
  CHECK(events_of(other.out).back()["mismatches"] == 0);

  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  Finished cut = train(common + " --plan " + file);
  CHECK(cut.code == 0);
  CHECK(cut.err.find(file) != std::string::npos);
  CHECK(cut.err.find("planning again") != std::string::npos);
  check_error(common + " --planner caching --plan " + file, "are for the arena planner");
}

TEST_CASE("the first updates are drawn as they happened") {
  TempFolder folder;
  const std::string common = "--data synthetic --model resnet20 --size 32 --classes 10" + kQuick;
  for (std::string planner : {"arena", "caching"}) {
    CAPTURE(planner);
    Finished run = train(common + " --planner " + planner + " --trace " + folder.path() + "/" +
                         planner + ".html");
    CAPTURE(run.err);
    CHECK(run.code == 0);
    CHECK(std::filesystem::file_size(folder.path() + "/" + planner + ".html") > 20'000);
  }
  CHECK(train(common + " --trace " + folder.path() + "/step.json").code == 0);
  json events = json::parse(std::ifstream(folder.path() + "/step.json"));
  CHECK(events["traceEvents"].size() > 1000);
  check_error(common + " --trace step.txt", "--trace writes .html or .json, got 'step.txt'");
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
                             " examples/train --data . --size 32 --json events" + kQuick);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK(std::filesystem::exists(folder.path() + "/events"));
}

TEST_CASE("events that cannot be written are an error") {
  CHECK(run_command("examples/train --data shapes --json /dev/full" + kQuick).code == 1);
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
  CHECK(losses(" --seed 1") != expected);
}

TEST_CASE("synthetic data needs no files and has no accuracy") {
  Finished run =
      train("--data synthetic --model resnet20 --size 32 --classes 10 --json -" + kQuick);
  REQUIRE(run.code == 0);
  CHECK(events_of(run.out).back()["val_accuracy"].is_null());
}

TEST_CASE("a budget too small for the parameters, or for a step, exits with 2 before training") {
  check_error("--model resnet20 --budget 1MiB" + kQuick,
              "parameters, buffers and optimizer state alone", 2);
  Finished run = train("--model resnet20 --budget 20MiB --batch 64 --json - --steps 2 --threads 1");
  CHECK(run.code == 2);
  auto events = events_of(run.out);
  REQUIRE(events.size() == 1);
  const json& refused = events[0];
  CHECK(refused["event"] == "refused");
  CHECK(refused["budget_bytes"] == 20 << 20);
  CHECK(refused["needed_bytes"] > 20 << 20);
  CHECK(refused["least_possible_bytes"] < refused["needed_bytes"]);
  CHECK(refused["fits"][0]["relative_time"] == 1.0);
  REQUIRE(refused["fits"].size() == 1);
  // What is said to fit, fits.
  std::string batch = refused["fits"][0]["remedy"].get<std::string>().substr(6);
  Finished again =
      train("--model resnet20 --budget 20MiB --json - --steps 2 --threads 1 --batch " + batch);
  REQUIRE(again.code == 0);
  const json done = events_of(again.out).back();
  CHECK(done["peak_bytes"] <= 20 << 20);
  CHECK(done["budget_violations"] == 0);
}

TEST_CASE("without a budget the machine's memory is the limit") {
  Finished run = train("--data synthetic --model resnet50 --batch 1000000 --steps 1 --json -");
  CHECK(run.code == 2);
  CHECK(run.err.find("resnet50 does not fit the machine's memory of") != std::string::npos);
  const json refused = events_of(run.out).front();
  CHECK(refused["event"] == "refused");
  CHECK(refused["budget_bytes"] == brim::memory::host_memory());
}

TEST_CASE("a refusal does not contradict itself, at odd batches and small ones") {
  const std::string common =
      " --data synthetic --model resnet20 --size 32 --classes 10 --threads 1";
  auto predicted = [&](int batch) -> int64_t {
    auto events =
        events_of(train("--json - --steps 1 --batch " + std::to_string(batch) + common).out);
    return events.front()["predicted_peak_bytes"];
  };
  for (int batch : {1, 3, 6}) {
    CAPTURE(batch);
    int64_t budget = predicted(batch) - 1;
    Finished run = train("--json - --steps 1 --batch " + std::to_string(batch) + common +
                         " --budget " + std::to_string(budget));
    CHECK(run.code == 2);
    const json refused = events_of(run.out).front();
    CHECK(refused["needed_bytes"] == budget + 1);
    int64_t least = refused["least_possible_bytes"];
    CHECK(least <= budget + 1);
    CHECK(refused["fits"].empty() == (least > budget));
    for (const json& fits : refused["fits"]) CHECK(fits["predicted_peak_bytes"] <= budget);
  }
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
  brim::examples::TrainFlags flags;
  flags.data = folder.path();
  flags.size = 32;
  flags.batch = 4;
  flags.augment = {.color_jitter = {.hue = 0.1f}, .random_erasing = 0.5f};
  auto data = brim::examples::open_data(flags);
  brim::examples::open_loaders(flags, data);
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
    brim::examples::TrainFlags flags;
    flags.data = source;
    flags.size = size;
    flags.batch = 4;
    auto data = brim::examples::open_data(flags);
    brim::examples::open_loaders(flags, data);
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
