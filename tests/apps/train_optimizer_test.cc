// How the train program updates weights: each flag has the effect that it says, and mistakes are
// named before anything is trained.
#include "brim/apps/support/train_optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "brim/nn/models/registry.h"
#include "brim/tests/support/subprocess.h"

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

Finished train(const std::string& arguments) {
  return run_command(
      "apps/train --op-times nominal --batch 4 --steps 2 --threads 1 --workers 1 " + arguments);
}

// The losses of three steps on the same random pixels, and the last event.
struct Trained {
  std::vector<double> losses;
  json done;
};

Trained trained(const std::string& arguments) {
  CAPTURE(arguments);
  Finished run = train("--data synthetic --size 32 --classes 10 --steps 3 --json - " + arguments);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  Trained result;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    result.done = json::parse(line);
    if (result.done["event"] == "step") result.losses.push_back(result.done["loss"]);
  }
  return result;
}

void check_error(const std::string& arguments, const std::string& text) {
  CAPTURE(arguments);
  Finished run = train("--json - " + arguments);
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(run.err.find(text) != std::string::npos);
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(run.out.find("\"step\"") == std::string::npos);
}

apps::OptimizerFlags checked(apps::OptimizerFlags flags,
                                 const std::string& model = "resnet20") {
  apps::check_optimizer_flags(flags, nn::training_recipe(model));
  return flags;
}

}  // namespace

TEST_CASE("train: each flag of the optimizer changes what is trained, and all are predicted") {
  std::vector<std::vector<double>> seen;
  for (const char* arguments :
       {"", "--optimizer adamw", "--momentum 0", "--weight-decay 0.5", "--clip-norm 0.001",
        "--clip-value 1e-6", "--no-decay norm,bias --weight-decay 0.5",
        "--optimizer adamw --weight-decay 10", "--freeze layer1 --freeze conv1"}) {
    CAPTURE(arguments);
    Trained result = trained(arguments);
    CHECK(result.losses.size() == 3);
    CHECK(result.done["peak_bytes"] == result.done["predicted_peak_bytes"]);
    CHECK(result.done["peak_live_bytes"] == result.done["predicted_peak_live_bytes"]);
    CHECK(std::ranges::find(seen, result.losses) == seen.end());
    seen.push_back(result.losses);
  }
}

TEST_CASE("train: averages are predicted, and leave the training alone") {
  Trained without = trained(""), with = trained("--ema 0.9");
  CHECK(with.losses == without.losses);
  CHECK(with.done["peak_live_bytes"] == with.done["predicted_peak_live_bytes"]);
  // A second set of the 269,722 parameters of resnet20.
  CHECK(with.done["peak_live_bytes"] > without.done["peak_live_bytes"].get<int64_t>() + 4 * 269722);
}

TEST_CASE("train: with averages, they are what is validated") {
  auto validation_loss = [](const std::string& more) {
    Finished run = train("--steps 6 --lr 0.2 --schedule constant" + more);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    const std::string before = "validation loss ";
    size_t at = run.out.find(before);
    REQUIRE(at != std::string::npos);
    return std::stod(run.out.substr(at + before.size()));
  };
  CHECK(validation_loss("") != validation_loss(" --ema 0.9"));
}

TEST_CASE("train: freezing saves memory") {
  int64_t all = trained("").done["peak_live_bytes"];
  int64_t part = trained("--freeze conv1 --freeze bn1 --freeze layer1 --freeze layer2")
                     .done["peak_live_bytes"];
  CHECK(part < all / 2);
}

TEST_CASE("train: says what was chosen, and the top-5 accuracy beside the other") {
  Finished run = train(
      "--optimizer adamw --no-decay norm,bias --clip-norm 1 --clip-value 0.5 --ema 0.99 --freeze "
      "layer1");
  CAPTURE(run.out);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(run.out.find(", weight decay 0.01 but for norm, bias; gradients clipped to 0.5; gradients "
                     "clipped to norm 1; weights averaged by 0.99; frozen: layer1, ") !=
        std::string::npos);
  CHECK(run.out.find("%, top-5 ") != std::string::npos);
  CHECK(run.out.find("  gradient norm ") != std::string::npos);
  run = train("--data synthetic --size 32 --batch 64 --steps 1");
  CHECK(run.out.find(
            "sgd: rate 0.1: 0.05 at batch 32, in proportion (linear), Nesterov momentum 0.9, "
            "weight decay 0.0005\n") != std::string::npos);
}

TEST_CASE("train: what no flag says is the model's recipe, or another optimizer's usual one") {
  const nn::TrainingRecipe own = nn::training_recipe("mobilenet_v2");
  const apps::OptimizerFlags flags = checked({}, "mobilenet_v2");
  CHECK(flags.name == own.optimizer);
  CHECK(flags.weight_decay == own.weight_decay);
  CHECK(apps::rate_for(flags, own.batch, 0).rate == own.rate);
  CHECK(apps::rate_for(flags, 4 * own.batch, 0).rate == 2 * own.rate);  // adamw: sqrt
  const apps::OptimizerFlags other = checked({.name = "sgd"}, "mobilenet_v2");
  CHECK(other.momentum == 0.9);
  CHECK(other.weight_decay == 5e-4);
  CHECK(apps::rate_for(other, 64, 0).rate == 0.1);
  const apps::OptimizerFlags given =
      checked({.rate = 0.3, .weight_decay = 0.2}, "mobilenet_v2");
  CHECK(given.weight_decay == 0.2);
  CHECK(apps::rate_for(given, 64, 0).rate == 0.3);
}

TEST_CASE("train: the rate and the warm-up follow the images of an update by the rule") {
  auto rate = [](const apps::OptimizerFlags& flags, int64_t batch, int64_t warmup) {
    return apps::rate_for(checked(flags), batch, warmup);
  };
  CHECK(rate({}, 32, 0).rate == 0.05);
  CHECK(rate({}, 128, 10).warmup == 10);  // as it is given
  CHECK(rate({.name = "adamw"}, 256, 0).rate == 0.002);
  CHECK(rate({.rate = 0.3}, 32, 0).rate == 0.3);
  CHECK(rate({.rate = 0.3, .recipe_batch = 64}, 32, 10).rate == 0.15);
  CHECK(rate({.rate = 0.3, .recipe_batch = 64}, 32, 10).warmup == 20);
  CHECK(rate({.rate = 0.3, .recipe_batch = 64, .rate_rule = "none"}, 32, 10).rate == 0.3);
  check_error("--rate-rule lin", "--rate-rule: expected linear, sqrt, none, got 'lin'; did you mean 'linear'?");
  Finished run = train("--data synthetic --size 32 --batch 16 --effective-batch 128 --steps 1");
  CHECK(run.out.find("rate 0.2: 0.05 at batch 32, in proportion (linear)") != std::string::npos);
  CHECK(run.out.find("batch 128 in 8 micro-batches of 16") != std::string::npos);
}

TEST_CASE("train: mistakes in the optimizer's flags are named") {
  check_error("--optimizer adam",
              "--optimizer: expected sgd, adamw, got 'adam'; did you mean 'adamw'?");
  check_error("--no-decay norms",
              "--no-decay: expected norm, bias, got 'norms'; did you mean 'norm'?");
  check_error("--freeze layr1", "has no parameters at or below 'layr1'; did you mean 'layer1'?");
  check_error("--optimizer adamw --momentum 0.9",
              "--momentum is for sgd, adamw has none: say --optimizer sgd");
  check_error("--ema 1", "--ema: expected a number from 0 to below 1, got '1'");
  check_error("--clip-norm 0", "--clip-norm");
  check_error("--clip-value -1", "--clip-value");
  check_error("--weight-decay -1", "--weight-decay");
  check_error(
      "--freeze conv1 --freeze bn1 --freeze layer1 --freeze layer2 --freeze layer3 "
      "--freeze fc",
      "expected a parameter that asks for a gradient");
}

TEST_CASE("train: flags make the optimizer, groups and averages that they name") {
  auto model = nn::make_model("resnet20", {.classes = 10, .seed = 1});
  auto updating = apps::make_updating(
      checked({.name = "adamw", .no_decay = {"bias"}, .ema = 0.99, .freeze = {"layer1"}}), *model);
  CHECK(updating.optimizer->named_state()[0].name == "exp_avg.conv1.weight");
  CHECK_FALSE(model->tensor("layer1.0.conv1.weight").requires_grad());
  REQUIRE(updating.ema != nullptr);
  CHECK(apps::make_updating(checked({}), *model).ema == nullptr);
  CHECK(checked({.name = "adamw", .weight_decay = 0}).weight_decay == 0);
}
