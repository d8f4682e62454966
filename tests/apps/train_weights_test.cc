// Weights through the train program: what it saves can be used alone, what it starts from is what
// it was given, and files that do not fit stop it before it trains.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "brim/apps/support/train_data.h"
#include "brim/nn/models/load_model.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/pictures.h"
#include "brim/tests/support/subprocess.h"

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

/// Two classes of pictures to train on, and room for files.
struct Place {
  TempFolder folder;
  std::string data, saved = folder.path() + "/saved.safetensors";

  Place() : data(" --data " + folder.path()) { write_pictures(folder, 4); }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
};

Finished train(const std::string& arguments) {
  return run_command(
      "apps/train --op-times nominal --size 32 --batch 4 --steps 2 --threads 1 --workers 1 " +
      arguments);
}

void check_refused(const std::string& arguments, const std::string& text) {
  CAPTURE(arguments);
  Finished run = train("--json - " + arguments);
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(contains(run.err, text));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(run.out.empty());  // not even a plan
}

/// Updates by 1e-30 of a gradient, which is nothing beside a parameter, and little beside 0.
const std::string kStill = " --lr 1e-30 --weight-decay 0 --schedule constant";

bool same(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.to_vector<float>(), b.to_vector<float>(),
                            [](float x, float y) { return std::abs(x - y) < 1e-20f; });
}

}  // namespace

TEST_CASE("a saved file has all that another process needs to classify") {
  Place place;
  Finished run = train("--save " + place.saved + place.data);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  nn::ModelCard card = nn::card_of(io::SafetensorsFile(place.saved));
  CHECK(card.model == "resnet20");
  CHECK(card.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(card.size == 32);
  CHECK(card.mean == std::vector{0.4914f, 0.4822f, 0.4465f});
  Finished inferred = run_command("apps/infer --json - --weights " + place.saved + " --image " +
                                  place.file("val/cat/0.jpg"));
  CAPTURE(inferred.err);
  REQUIRE(inferred.code == 0);
  json top = json::parse(inferred.out)["top"];
  REQUIRE(top.size() == 2);
  CHECK((top[0]["name"] == "cat" || top[0]["name"] == "dog"));
  double sum = top[0]["probability"].get<double>() + top[1]["probability"].get<double>();
  CHECK(sum == doctest::Approx(1));
}

TEST_CASE("images that are cut out of larger ones say so in the file, up to the largest size") {
  Place place;
  Finished run = train("--size 72 --save " + place.saved + place.data);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(nn::card_of(io::SafetensorsFile(place.saved)).resize == 82);  // as 256 to 224
  apps::TrainFlags flags;
  flags.data = place.folder.path();
  for (int size : {3584, 3600, 4096}) {
    flags.size = size;
    CHECK(apps::validation_augment(flags).resize == 4096);
  }
  check_refused("--size 4097" + place.data,
                "--size: expected a whole number from 1 to 4096, got '4097'");
}

TEST_CASE("train and prune: a prefix of all names in a file is taken off, and said") {
  const TempFolder folder;
  const std::string plain = folder.path() + "/plain", prefixed = folder.path() + "/prefixed";
  nn::save_weights(*nn::make_model("resnet20", {.classes = 10, .seed = 5}), plain,
                   {.model = "resnet20"});
  const io::SafetensorsFile file(plain);
  std::vector<io::NamedBytes> all;
  for (const io::TensorInfo& tensor : file.tensors())
    all.push_back({"module.model." + tensor.name, file.read(tensor.name)});
  io::write_safetensors(prefixed, all, file.metadata());
  const std::string said =
      "the names in " + prefixed + " begin with 'module.model.', which is taken off\n";
  const std::string run = " --data synthetic --classes 10 --model resnet20 --save " + folder.path();
  const Finished trained = train("--init " + prefixed + run + "/1");
  CAPTURE(trained.err);
  CHECK(contains(trained.out, said));
  CHECK(train("--init " + plain + run + "/2").code == 0);
  auto trained_head = [&](const char* name) {
    return io::SafetensorsFile(folder.path() + name).read("fc.weight").to_vector<float>();
  };
  CHECK(trained_head("/1") == trained_head("/2"));
  const Finished pruned = run_command(
      "apps/prune --op-times nominal --threads 1 --batch 2 "
      "--data synthetic --classes 10 --weights " +
      prefixed);
  CAPTURE(pruned.err);
  CHECK(pruned.code == 0);
  CHECK(pruned.out.starts_with(said));
}

TEST_CASE("training starts from the weights of a file, and predicts its memory as without") {
  Place place;
  auto initial = nn::make_model("resnet20", {.classes = 2, .seed = 77});
  nn::save_weights(*initial, place.file("init"));
  Finished run = train("--json - --init " + place.file("init") + " --save " + place.saved +
                       place.data + kStill);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  nn::LoadedModel trained = nn::load_model(place.saved);
  for (const auto& [name, tensor] : initial->named_parameters()) {
    CAPTURE(name);
    CHECK(same(trained.module->tensor(name), tensor));
  }
  CHECK_FALSE(
      same(trained.module->tensor("bn1.running_mean"), initial->tensor("bn1.running_mean")));
  json done = json::parse(run.out.substr(run.out.rfind("{\"event\":\"done\"")));
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  CHECK(done["peak_live_bytes"] == done["predicted_peak_live_bytes"]);
}

TEST_CASE("a new head is the classifier as it is initialised, on the loaded rest") {
  Place place;
  auto initial = nn::make_model("resnet20", {.classes = 10, .seed = 77});
  nn::save_weights(*initial, place.file("init"));
  check_refused(
      "--init " + place.file("init") + place.data,
      "tensor 'fc.bias' is [10], but [2] in the model; for other classes ask for a new head");
  Finished run = train("--new-head --seed 5 --init " + place.file("init") + " --save " +
                       place.saved + place.data + kStill);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  nn::LoadedModel trained = nn::load_model(place.saved);
  CHECK(trained.classes == 2);
  CHECK(same(trained.module->tensor("conv1.weight"), initial->tensor("conv1.weight")));
  auto fresh = nn::make_model("resnet20", {.classes = 2, .seed = 5});
  CHECK(same(trained.module->tensor("fc.weight"), fresh->tensor("fc.weight")));
}

TEST_CASE("averages are what is saved, where training keeps some") {
  Place place;
  auto weight_after = [&](const std::string& flags) {
    Finished run = train("--schedule constant " + flags + " --save " + place.saved + place.data);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return nn::load_model(place.saved).module->tensor("conv1.weight").to_vector<double>();
  };
  std::vector<double> first = weight_after("--steps 1"), second = weight_after(""),
                      average = weight_after("--ema 0.9");
  for (size_t i = 0; i < average.size(); ++i) {
    // The first update's value, then by 2 / 11 of it and the rest of the second's.
    double expected = first[i] + 9.0 / 11 * (second[i] - first[i]);
    double room = 4 * 0x1p-24 * (std::abs(first[i]) + std::abs(second[i]));  // float32, four steps
    CHECK(std::abs(average[i] - expected) <= room);
  }
  CHECK(first != second);
}

TEST_CASE("outputs beyond the classes of the data have names too") {
  Place place;
  Finished run = train("--classes 4 --save " + place.saved + place.data);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(nn::load_model(place.saved).card.classes ==
        std::vector<std::string>{"cat", "dog", "class 2", "class 3"});
}

TEST_CASE("files that do not fit stop the program before it plans") {
  Place place;
  nn::save_weights(*nn::make_model("mobilenet_v2", {.classes = 2}), place.file("other"));
  check_refused("--init " + place.file("other") + place.data,
                "is not of this model: the file has no");
  nn::save_weights(*nn::make_model("mobilenet_v2", {.classes = 2}), place.file("told"),
                   {.model = "mobilenet_v2"});
  check_refused("--init " + place.file("told") + place.data,
                "is a mobilenet_v2, not a resnet20: say --model mobilenet_v2");
  check_refused("--init /no/such/file" + place.data, "/no/such/file");
  check_refused("--init " + place.file("val/cat/0.jpg") + place.data, "is it a safetensors file?");
  check_refused("--new-head" + place.data, "--new-head needs --init");
  check_refused("--save /no/such/folder/a" + place.data, "/no/such/folder/a");
  check_refused("--save " + place.folder.path() + place.data, "not a regular file");
}

TEST_CASE("training does not start from weights that are not finite") {
  Place place;
  const auto model = nn::make_model("resnet20", {.classes = 2, .seed = 1});
  fill(model->tensor("layer1.0.bn1.weight"), std::nan(""));
  nn::save_weights(*model, place.file("nan"));
  const Finished run = train("--quiet --init " + place.file("nan") + place.data);
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(contains(run.err, "'" + place.file("nan") +
                              "': tensor 'layer1.0.bn1.weight' has values that are not finite"));
}

TEST_CASE("a run that fails leaves the file that was there") {
  Place place;
  place.folder.write("saved.safetensors", std::vector<uint8_t>{'x'});
  place.folder.write("train/cat/1.jpg", Bytes{});
  CHECK(train("--save " + place.saved + place.data).code == 1);
  CHECK(std::filesystem::file_size(place.saved) == 1);
}
