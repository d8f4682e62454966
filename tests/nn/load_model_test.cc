// Proves that a model can be made from its file alone, with the classes that the file has, and that
// a file which contradicts itself or the caller is refused.
#include "brim/nn/models/load_model.h"

#include <doctest/doctest.h>

#include "brim/autograd/op.h"
#include "brim/nn/models/inception_v3.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using testing::contains;
using testing::error_text;

namespace {

struct Saved {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a.safetensors";

  explicit Saved(const nn::ModelCard& card) {
    auto model = nn::make_model("resnet20", {.classes = 3});
    nn::save_weights(*model, path, card);
  }
};

std::string refusal(const nn::ModelCard& card, const std::string& model = "") {
  Saved saved(card);
  return error_text<Error>([&] { nn::load_model(saved.path, {.model = model}); });
}

}  // namespace

TEST_CASE("a file with a card needs nothing else") {
  Saved saved({.model = "resnet20", .classes = {"a", "b", "c"}, .size = 32});
  nn::LoadedModel loaded = nn::load_model(saved.path);
  CHECK(loaded.classes == 3);
  CHECK(loaded.card.classes.size() == 3);
  CHECK_FALSE(loaded.module->training());
  auto original = nn::make_model("resnet20", {.classes = 3});
  original->eval();
  autograd::NoGradScope no_grad;
  Tensor x = uniform({2, 32, 32, 3}, -1, 1, RandomKey{1});
  CHECK((*loaded.module)(x).to_vector<float>() == (*original)(x).to_vector<float>());
}

TEST_CASE("a file without one needs the model's name alone, and float64 is as good") {
  Saved saved({});
  CHECK(contains(refusal({}), "does not say which model it is"));
  nn::LoadedModel loaded =
      nn::load_model(saved.path, {.model = "resnet20", .dtype = Dtype::float64});
  CHECK(loaded.classes == 3);
  CHECK(loaded.card.model == "resnet20");
  CHECK(loaded.module->tensor("fc.weight").dtype() == Dtype::float64);
}

TEST_CASE("a file of Inception V3 with its auxiliary classifier, as torchvision's, loads without") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  nn::InceptionV3 original({.classes = 3, .auxiliary = true});
  nn::initialize(original, 1);
  nn::save_weights(original, path);
  nn::LoadedModel loaded = nn::load_model(path, {.model = "inception_v3"});
  CHECK(loaded.classes == 3);
  for (const auto& [name, tensor] : loaded.module->named_parameters()) {
    CAPTURE(name);
    CHECK(tensor.to_vector<float>() == original.tensor(name).to_vector<float>());
  }
  nn::LoadReport report = nn::load_weights(*loaded.module, path);
  CHECK(report.skipped.size() == 2 * 6 + 2);  // two convolutions with norm and counter, one layer
  nn::save_weights(*loaded.module, path);
  CHECK(contains(error_text<FileError>([&] { nn::load_weights(original, path); }),
                 "the file has no 'AuxLogits.conv0.bn.bias'"));
}

TEST_CASE("a prefix of all names is taken off, and told") {
  Saved saved({});
  io::SafetensorsFile file(saved.path);
  std::vector<io::NamedBytes> all;
  for (const io::TensorInfo& tensor : file.tensors())
    all.push_back({"module.model." + tensor.name, file.read(tensor.name)});
  testing::TempFolder folder;
  io::write_safetensors(folder.path() + "/a", all);
  nn::LoadedModel loaded = nn::load_model(folder.path() + "/a", {.model = "resnet20"});
  CHECK(loaded.classes == 3);
  CHECK(loaded.prefix == "module.model.");
  CHECK(nn::load_model(saved.path, {.model = "resnet20"}).prefix.empty());
}

TEST_CASE("contradictions are refused") {
  CHECK(contains(refusal({.model = "resnet20"}, "resnet18"), "is a resnet20, not a resnet18"));
  CHECK(contains(refusal({.model = "resnet81"}), "did you mean 'resnet18'?"));
  CHECK(contains(refusal({.model = "resnet18"}), "is not of this model: the file has no"));
  CHECK(contains(refusal({.model = "resnet20", .classes = {"a", "b"}}),
                 "names 2 classes, but its classifier has 3"));
}

namespace {

// Of ResNet-20 with one block that has 5 channels inside.
const nn::TensorShapes kNarrow{{"layer1.0.conv1.weight", {5, 3, 3, 16}},
                               {"layer1.0.bn1.weight", {5}},
                               {"layer1.0.bn1.bias", {5}},
                               {"layer1.0.bn1.running_mean", {5}},
                               {"layer1.0.bn1.running_var", {5}},
                               {"layer1.0.conv2.weight", {16, 3, 3, 5}}};

}  // namespace

TEST_CASE("a model with tensors of other sizes is made from its file, and only at its size") {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  auto usual = nn::make_model("resnet20", {.classes = 3, .device = Device::meta()});
  auto original = nn::make_model("resnet20", {.classes = 3, .seed = 4, .sizes = {kNarrow}});
  const nn::ModelSizes sizes = nn::sizes_beside(*original, *usual);
  CHECK(sizes == nn::ModelSizes{kNarrow});
  nn::save_weights(*original, path, {.model = "resnet20", .sizes = sizes});
  nn::LoadedModel loaded = nn::load_model(path);
  CHECK(loaded.card.sizes == sizes);
  original->eval();
  autograd::NoGradScope no_grad;
  Tensor x = uniform({2, 32, 32, 3}, -1, 1, RandomKey{1});
  CHECK((*loaded.module)(x).to_vector<float>() == (*original)(x).to_vector<float>());

  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  auto again = nn::make_model("resnet20", {.classes = 3, .sizes = {kNarrow}});
  CHECK(account->stats().peak_live == account->stats().live);
}

TEST_CASE("shapes of another model, or not those of the tensors beside them, are refused") {
  auto refusal_of = [](nn::TensorShapes shapes) {
    Saved saved({.model = "resnet20", .sizes = {std::move(shapes)}});
    return error_text<FileError>([&] { nn::load_model(saved.path); });
  };
  CHECK(contains(refusal_of(kNarrow), "tensor 'layer1.0.bn1.bias' is [16], but [5] in the model"));
  CHECK(contains(refusal_of({{"layer1.0.conv1.wait", {5}}}),
                 "brim.shapes or brim.bypassed is not of a resnet20: resize: the model has no "
                 "parameter or buffer "
                 "'layer1.0.conv1.wait'; did you mean 'layer1.0.conv1.weight'?"));
  CHECK(
      contains(refusal_of({{"conv1.weight", {5}}}), "'conv1.weight' is [16,3,3,3] and cannot be"));
  constexpr int64_t kHuge = int64_t{1} << 40;
  CHECK_FALSE(refusal_of({{"conv1.weight", {kHuge, kHuge, kHuge, kHuge}}}).empty());
  auto model = nn::make_model("resnet20", {.classes = 3});
  CHECK_THROWS_AS(nn::resize(*model, {.shapes = {{"bn1.bias", {3}}, {"bn1.weight", {0}}}}),
                  ValueError);
  CHECK(model->tensor("bn1.bias").shape() == Shape{16});
}

TEST_CASE("a model without some of its blocks is made from its file") {
  const nn::ModelSizes sizes{.shapes = kNarrow, .bypassed = {"layer1.1", "layer3.2"}};
  auto original = nn::make_model("resnet20", {.classes = 3, .seed = 4, .sizes = sizes});
  auto usual = nn::make_model("resnet20", {.classes = 3, .device = Device::meta()});
  CHECK(nn::sizes_beside(*original, *usual) == sizes);
  for (const nn::NamedTensor& parameter : original->named_parameters())
    CHECK_FALSE(parameter.name.starts_with("layer1.1"));
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  nn::save_weights(*original, path, {.model = "resnet20", .sizes = sizes});
  const nn::LoadedModel loaded = nn::load_model(path);
  original->eval();
  autograd::NoGradScope no_grad;
  const Tensor x = uniform({2, 32, 32, 3}, -1, 1, RandomKey{1});
  CHECK((*loaded.module)(x).to_vector<float>() == (*original)(x).to_vector<float>());

  auto refusal_of = [](std::vector<std::string> bypassed) {
    Saved saved({.model = "resnet20", .sizes = {.bypassed = std::move(bypassed)}});
    return error_text<FileError>([&] { nn::load_model(saved.path); });
  };
  CHECK(contains(refusal_of({"layer1.11"}), "has no module 'layer1.11'; did you mean 'layer1.1'?"));
  CHECK(contains(refusal_of({"layer1.1", "layer1.1"}), "'layer1.1' is bypassed twice"));
  CHECK(contains(refusal_of({"layer1", "layer1.1"}), "'layer1.1' is bypassed twice, or with what"));
  // The tensors beside it are those of a whole model.
  CHECK(contains(refusal_of({"layer1.1"}), "the model has no 'layer1.1.bn1.bias'"));
}

TEST_CASE("a classifier that cannot be one is named, and takes no memory") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  auto model = nn::make_model("resnet20", {.classes = 3});
  nn::save_weights(*model, path);
  io::SafetensorsFile file(path);
  for (const Shape& shape : {Shape{int64_t{1} << 60, 0}, Shape{int64_t{1} << 54, 0},
                             Shape{int64_t{1} << 50, 0}, Shape{0, 64}, Shape{192}, Shape{}}) {
    CAPTURE(to_string(shape));
    std::vector<io::NamedBytes> tensors;
    for (const io::TensorInfo& tensor : file.tensors())
      tensors.push_back(
          {tensor.name, tensor.name == "fc.weight" ? empty(shape) : file.read(tensor.name)});
    std::string bad = folder.path() + "/bad";
    io::write_safetensors(bad, tensors);
    auto account = memory::capped_host_account("direct", 0);
    memory::AccountScope scope(account);
    std::string text = error_text<FileError>([&] { nn::load_model(bad, {.model = "resnet20"}); });
    CHECK(contains(text, "'" + bad + "': tensor 'fc.weight' is " + to_string(shape)));
  }
}
