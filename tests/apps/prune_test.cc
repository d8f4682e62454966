// The prune program from outside: what it saves is as small as it says, other programs take it, and
// it says in one line why it does not do what cannot be done.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "brim/nn/models/load_model.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/shrink/channel_groups.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// A model of ten classes in a file.
struct Place {
  TempFolder folder;
  std::string weights = file("w.safetensors"), half = file("half.safetensors");

  Place() {
    nn::save_weights(*nn::make_model("resnet20", {.classes = 10, .seed = 3}), weights,
                     {.model = "resnet20"});
  }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
  std::string arguments(const std::string& more) const {
    return "apps/prune --op-times nominal --data synthetic --size 32 --classes 10 --batch 4 "
           "--threads 1 --quiet --weights " +
           weights + " " + more;
  }
  json run(const std::string& more) const {
    const Finished run = run_command(arguments("--json - " + more));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return json::parse(run.out);
  }
  void check_refused(const std::string& more, const std::string& text) const {
    CAPTURE(more);
    const Finished run = run_command(arguments(more));
    CAPTURE(run.err);
    CHECK(run.code == 1);
    CHECK(contains(run.err, text));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  }
};

}  // namespace

TEST_CASE("prune: half the FLOPs; the file makes that model, and says so of itself") {
  const Place place;
  const json said = place.run("--to flops=0.5 --multiple 1 --save " + place.half);
  const json &before = said["before"], &after = said["after"];
  CHECK(after["flops"] <= 0.5 * before["flops"].get<double>());
  CHECK(after["flops"] >= 0.45 * before["flops"].get<double>());
  CHECK(after["train_peak_bytes"] < before["train_peak_bytes"]);
  CHECK(after["infer_peak_bytes"] < before["infer_peak_bytes"]);
  for (const json& measured : {before, after})
    CHECK(measured["infer_measured_bytes"] == measured["infer_peak_bytes"]);
  CHECK(before["images_per_second"] > 0);
  CHECK(after["train_images_per_second"] > 0);
  CHECK(after["accuracy"].is_null());  // there is nothing to validate
  const nn::LoadedModel loaded = nn::load_model(place.half);
  // The file is smaller by what was removed.
  const auto overhead = [](const std::string& path) {
    const io::SafetensorsFile file(path);
    int64_t bytes = 0;
    for (const io::TensorInfo& tensor : file.tensors()) bytes += tensor.end - tensor.begin;
    return static_cast<int64_t>(std::filesystem::file_size(path)) - bytes;
  };
  const int64_t removed = before["parameters"].get<int64_t>() - after["parameters"].get<int64_t>();
  CHECK(std::filesystem::file_size(place.weights) - std::filesystem::file_size(place.half) >
        static_cast<uint64_t>(4 * removed) - 8192);  // the card of shapes is a few KiB
  CHECK(overhead(place.half) < overhead(place.weights) + 8192);
  CHECK(loaded.module->parameter_count() == after["parameters"]);
  CHECK(before["parameters"] ==
        nn::make_model("resnet20", {.classes = 10, .device = Device::meta()})->parameter_count());
  const Finished planned = run_command(
      "apps/plan --op-times nominal --model resnet20 --size 32 --classes 10 --batch 4 "
      "--threads 1 "
      "--json - --init " +
      place.half);
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  CHECK(json::parse(planned.out)["predicted_peak_bytes"] == after["train_peak_bytes"]);
  // Pruned once more, from what it is.
  const Finished again = run_command(
      "apps/prune --op-times nominal --data synthetic --size 32 --classes 10 --batch 4 "
      "--threads 1 --quiet --json - --to parameters=0.8 --weights " +
      place.half);
  CAPTURE(again.err);
  REQUIRE(again.code == 0);
  CHECK(json::parse(again.out)["before"]["parameters"] == after["parameters"]);
}

TEST_CASE("prune: train goes on from the file, within what is predicted, and finetuning is that") {
  const Place place;
  const json said =
      place.run("--to ratio=0.4 --multiple 1 --finetune-epochs 2 --save " + place.half);
  const json whole = trained_as_predicted(kSynthetic + kQuick).back();
  const json pruned = trained_as_predicted(kSynthetic + kQuick + " --init " + place.half +
                                           " --save " + place.file("on.safetensors"))
                          .back();
  CHECK(pruned["peak_bytes"] < whole["peak_bytes"]);
  CHECK(nn::load_model(place.file("on.safetensors")).module->parameter_count() ==
        said["after"]["parameters"]);
  place.run("--to ratio=0.4 --multiple 1 --save " + place.file("untrained.safetensors"));
  const nn::LoadedModel trained = nn::load_model(place.half),
                        untrained = nn::load_model(place.file("untrained.safetensors"));
  CHECK(trained.card.sizes == untrained.card.sizes);
  CHECK(trained.module->tensor("fc.weight").to_vector<float>() !=
        untrained.module->tensor("fc.weight").to_vector<float>());
  const Finished new_head =
      train(kSynthetic + kQuick + " --init " + place.half + " --new-head --classes 3");
  CAPTURE(new_head.err);
  CHECK(new_head.code == 0);
}

TEST_CASE("prune: to bytes of training or inference, time or parameters") {
  const Place place;
  const std::vector<std::pair<std::string, std::string>> goals{{"bytes", "train_peak_bytes"},
                                                               {"infer-bytes", "infer_peak_bytes"},
                                                               {"parameters", "parameters"}};
  for (const auto& [goal, key] : goals) {
    CAPTURE(goal);
    const json said = place.run("--multiple 1 --to " + goal + "=0.9");
    CHECK(said["after"][key] <= 0.9 * said["before"][key].get<double>());
  }
  const json time = place.run("--multiple 1 --to time=0.7");
  CHECK(time["after"]["flops"] < time["before"]["flops"]);
  const json taylor = place.run("--multiple 1 --criterion taylor --gradient-batches 2");
  CHECK(taylor["after"]["flops"] < taylor["before"]["flops"]);
}

TEST_CASE("prune: --help ends with examples of its own") {
  const Finished help = run_command("apps/prune --help");
  CHECK(help.code == 0);
  CHECK(contains(help.out, "prune --weights r20.safetensors --data cifar10 --to flops=0.5"));
}

TEST_CASE("prune: the size is that which the file says, unless told otherwise") {
  const Place place;
  const std::string weights = place.file("small.safetensors");
  nn::save_weights(*nn::make_model("mobilenet_v2", {.classes = 10}), weights,
                   {.model = "mobilenet_v2", .size = 64});
  auto flops = [&](const std::string& more) {
    const Finished run = run_command(
        "apps/prune --op-times nominal --data synthetic --classes 10 --batch 4 --threads 1 "
        "--quiet --json - --weights " +
        weights + more);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return json::parse(run.out)["before"]["flops"].get<double>();
  };
  CHECK(flops("") == flops(" --size 64"));
  CHECK(flops("") < flops(" --size 96"));
}

TEST_CASE("prune: what cannot be done is said in a line, and changes no file") {
  const Place place;
  place.check_refused("--to flops=0.001", "cannot be had: the least possible is ");
  place.check_refused("--to flops=1.5", "expected a number above 0 and up to 1 in --to flops=0.5");
  place.check_refused("--to flops", "expected a number above 0 and up to 1");
  place.check_refused("--to flobs=0.5", "did you mean 'flops'?");
  place.check_refused("--criterion tailor", "did you mean 'taylor'?");
  place.check_refused("--exclude layer9", "no module or parameter 'layer9'; did you mean");
  place.check_refused("--finetune-epochs 2", "--finetune-epochs needs --save");
  place.check_refused("--batch auto", "give --batch a number, not auto");
  place.check_refused("--model resnet18", "is a resnet20, not a resnet18");
  nn::save_weights(*nn::make_model("resnet20", {.classes = 10}), place.half,
                   {.model = "resnet20", .sizes = {{{"bn1.bias", {5}}}}});
  check_error(kSynthetic + kQuick + " --init " + place.half,
              "tensor 'bn1.bias' is [16], but [5] in the model");
}

TEST_CASE("prune: a model pruned as a refusal proposes trains in the bytes that it names") {
  const Place place;
  const std::string flags =
      kSynthetic + " --op-times nominal --batch 8 --steps 2 --recompute auto --budget 4MiB";
  const Finished refused = train(flags + " --json -");
  CAPTURE(refused.err);
  REQUIRE(refused.code == 2);
  const std::string kPruned = "a model pruned by ";
  const nlohmann::json fits = nlohmann::json::parse(refused.out)["fits"];
  const auto proposal = std::ranges::find_if(fits, [&](const nlohmann::json& one) {
    return one["remedy"].get<std::string>().starts_with(kPruned);
  });
  REQUIRE(proposal != fits.end());
  const std::string percent = (*proposal)["remedy"].get<std::string>().substr(kPruned.size(), 2);
  place.run("--to ratio=0." + percent + " --per-layer --save " + place.half);
  CHECK(trained_as_predicted(flags + " --init " + place.half).back()["peak_bytes"] ==
        (*proposal)["predicted_peak_bytes"]);
}

TEST_CASE("prune: whole blocks, one after the other; and what is excluded stays") {
  const Place place;
  const TempFolder data;
  write_cifar10(data);
  const std::string program = "apps/prune --op-times nominal --batch 4 --threads 1 --data " +
                              data.path() + " --weights " + place.weights + " ";
  const Finished run =
      run_command(program + "--remove-blocks 2 --sensitivity-images 8 --save " + place.half);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(contains(run.out, " goes: accuracy "));
  CHECK(contains(run.out, "without it and those before it"));
  const nn::LoadedModel fewer = nn::load_model(place.half);
  CHECK(fewer.module->bypassed_modules().size() == 2);
  CHECK(fewer.card.sizes.shapes.empty());
  // Then channels, of what is left, down to half of all that there was.
  const Finished both =
      run_command(program +
                  "--quiet --json - --remove-blocks 1 --to flops=0.5 --multiple 1 "
                  "--exclude layer3 --sensitivity-images 8 --save " +
                  place.half);
  CAPTURE(both.err);
  REQUIRE(both.code == 0);
  const json said = json::parse(both.out);
  CHECK(said["after"]["flops"] <= 0.5 * said["before"]["flops"].get<double>());
  CHECK(said["after"]["accuracy"].is_number());
  const nn::LoadedModel smaller = nn::load_model(place.half);
  CHECK(smaller.module->bypassed_modules().size() == 1);
  CHECK(smaller.module->parameter_count() == said["after"]["parameters"]);
  for (const auto& [name, shape] : smaller.card.sizes.shapes)
    CHECK_FALSE(name.starts_with("layer3."));
  const Finished many = run_command(program + "--remove-blocks 8");
  CHECK(many.code == 1);
  CHECK(contains(many.err, "--remove-blocks 8: there are 7 blocks of resnet20 that can go"));
  place.check_refused("--remove-blocks 1", "--remove-blocks needs images to validate");
}

TEST_CASE("prune --sensitivity: a row for each group, with the shares that it says") {
  const Place place;
  const TempFolder data;
  write_cifar10(data);
  const std::string page = place.file("page.html");
  const Finished run =
      run_command("apps/prune --op-times nominal --batch 4 --threads 1 --data " + data.path() +
                  " --weights " + place.weights + " --sensitivity-images 8 --sensitivity " + page);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(contains(run.out, "on 8 images; without a share of one group alone:"));
  auto model = nn::make_model("resnet20", {.classes = 10, .device = Device::meta()});
  const std::string html = bytes_of(page);
  const auto groups = shrink::find_channel_groups(*model, {1, 32, 32, 3}).groups;
  CHECK(groups.size() > 9);
  for (const shrink::ChannelGroup& group : groups) {
    CHECK(contains(html, "<td>" + group.name + "</td>"));
    CHECK(contains(run.out, "  " + group.name + " "));
  }
  CHECK(std::ranges::count(html, '\n') > 10);
  place.check_refused("--sensitivity " + page, "--sensitivity needs images to validate");
}
