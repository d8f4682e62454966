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

TEST_CASE("contradictions are refused") {
  CHECK(contains(refusal({.model = "resnet20"}, "resnet18"), "is a resnet20, not a resnet18"));
  CHECK(contains(refusal({.model = "resnet81"}), "did you mean 'resnet18'?"));
  CHECK(contains(refusal({.model = "resnet18"}), "is not of this model: the file has no"));
  CHECK(contains(refusal({.model = "resnet20", .classes = {"a", "b"}}),
                 "names 2 classes, but its classifier has 3"));
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
