// The prune program from outside: what it saves is as small as it says, other programs take it, and
// it says in one line why it does not do what cannot be done.
#include <doctest/doctest.h>

#include "brim/nn/models/load_model.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/tests/examples/train_program.h"
#include "brim/tests/support/errors.h"

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
    return "examples/prune --op-times nominal --data synthetic --size 32 --classes 10 --batch 4 "
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
  CHECK(loaded.module->parameter_count() == after["parameters"]);
  CHECK(before["parameters"] ==
        nn::make_model("resnet20", {.classes = 10, .device = Device::meta()})->parameter_count());
  // Pruned once more, from what it is.
  const Finished again = run_command(
      "examples/prune --op-times nominal --data synthetic --size 32 --classes 10 --batch 4 "
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
