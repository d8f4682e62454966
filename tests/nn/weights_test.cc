// Proves that weights go to files and back without loss, in PyTorch's names and layouts, and that a
// file of another model is refused with names before any value is changed.
#include "brim/nn/weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/slice.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using testing::contains;
using testing::error_text;

namespace {

// One of each kind of layer that has a layout or buffers of its own.
struct Net final : nn::Module {
  nn::Conv2d conv{3, 4, {.kernel = {2, 5}, .bias = false}};
  nn::BatchNorm2d bn{4};
  nn::Linear fc;
  explicit Net(int64_t classes = 3) : fc(4, classes) {
    register_modules({{"conv", conv}, {"bn", bn}, {"fc", fc}});
  }
  Tensor forward(Tensor x) override { return fc(global_avg_pool(bn(conv(std::move(x))))); }
};

std::unique_ptr<Net> net(uint64_t seed, int64_t classes = 3) {
  auto made = std::make_unique<Net>(classes);
  nn::initialize(*made, seed);
  fill(made->bn.running_mean, static_cast<double>(seed));
  return made;
}

std::vector<double> values(const nn::Module& module) {
  std::vector<double> all;
  module.for_each_slot([&](const std::string&, const nn::Module::Slot& slot) {
    for (double value : slot.tensor->to_vector<double>()) all.push_back(value);
  });
  return all;
}

/// The tensors of a file that `net` would write, to be changed by a test.
std::vector<io::NamedBytes> entries(uint64_t seed, const std::string& path) {
  nn::save_weights(*net(seed), path);
  io::SafetensorsFile file(path);
  std::vector<io::NamedBytes> all;
  for (const io::TensorInfo& tensor : file.tensors())
    all.push_back({tensor.name, file.read(tensor.name)});
  return all;
}

io::NamedBytes& entry(std::vector<io::NamedBytes>& all, const std::string& name) {
  auto found = std::ranges::find(all, name, &io::NamedBytes::name);
  REQUIRE(found != all.end());
  return *found;
}

/// Loads a file of these tensors into a net of seed 2, which must refuse it and stay as it was.
std::string refusal(const std::vector<io::NamedBytes>& tensors, nn::LoadOptions options = {}) {
  testing::TempFolder folder;
  std::string path = folder.path() + "/bad";
  io::write_safetensors(path, tensors);
  auto model = net(2);
  std::vector<double> before = values(*model);
  std::string text = error_text<FileError>([&] { nn::load_weights(*model, path, options); });
  CHECK(contains(text, "weights: '" + path + "'"));
  CHECK(values(*model) == before);
  return text;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("what is saved is loaded bit by bit, buffers included") {
  testing::TempFolder folder;
  std::string first = folder.path() + "/1", second = folder.path() + "/2";
  auto saved = net(1), loaded = net(2);
  CHECK(values(*saved) != values(*loaded));
  nn::save_weights(*saved, first);
  nn::LoadReport report = nn::load_weights(*loaded, first);
  CHECK(values(*saved) == values(*loaded));
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());
  nn::save_weights(*loaded, second);
  CHECK(file_text(first) == file_text(second));
}

TEST_CASE("a model without values has them after loading, and cannot be saved before") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  nn::save_weights(*net(1), path);
  Net empty;
  CHECK(contains(error_text<ValueError>([&] { nn::save_weights(empty, folder.path() + "/b"); }),
                 "'conv.weight' has no values yet"));
  nn::load_weights(empty, path);
  CHECK(values(empty) == values(*net(1)));
  CHECK(empty(ones({1, 4, 8, 3})).shape() == Shape{1, 3});
}

TEST_CASE("convolution weights are [out,in,height,width] in the file, all else is as it is here") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  auto model = net(1);
  nn::save_weights(*model, path);
  io::SafetensorsFile file(path);
  Tensor theirs = file.read("conv.weight");
  REQUIRE(theirs.shape() == Shape{4, 3, 2, 5});
  const float* ours = model->conv.weight.data<float>();
  for (int64_t k = 0; k < 4; ++k)
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t s = 0; s < 5; ++s)
          CHECK(theirs.data<float>()[((k * 3 + c) * 2 + r) * 5 + s] ==
                ours[((k * 2 + r) * 5 + s) * 3 + c]);
  CHECK(file.read("fc.weight").to_vector<float>() == model->fc.weight.to_vector<float>());
  CHECK(file.info("bn.num_batches_tracked").dtype == Dtype::int64);
  CHECK(file.read("bn.num_batches_tracked").item<int64_t>() == 0);
  CHECK(file.tensors().size() == 8);
}

TEST_CASE("models are saved under the names and in the shapes of torchvision's state dicts") {
  testing::TempFolder folder;
  for (const std::string& name : nn::model_names()) {
    if (name == "resnet20" || name == "mobilenet_v1") continue;  // torchvision has no such model
    CAPTURE(name);
    std::string path = folder.path() + "/weights";
    const int64_t parameters = nn::make_model(name, {.device = Device::meta()})->parameter_count();
    if (testing::is_instrumented() && parameters > 50'000'000) continue;
    nn::save_weights(*nn::make_model(name), path);
    io::SafetensorsFile file(path);
    std::ifstream golden("tests/nn/golden/" + name + ".txt");
    std::set<std::string> wanted;
    for (std::string kind, key, shape; golden >> kind >> key >> shape;) {
      if (kind != "parameter" && kind != "buffer") continue;
      wanted.insert(key);
      size_t dot = key.rfind('.') + 1;
      if (key.substr(dot) == "running_mean")
        wanted.insert(key.substr(0, dot) + "num_batches_tracked");
      const io::TensorInfo* info = file.find(key);
      REQUIRE(info != nullptr);
      Shape n = info->shape;
      if (n.size() == 4) n = {n[0], n[2], n[3], n[1]};
      CHECK(to_string(n) == shape);
    }
    std::set<std::string> got;
    for (const io::TensorInfo& tensor : file.tensors()) got.insert(tensor.name);
    CHECK(got == wanted);
  }
}

TEST_CASE("files of other precisions are converted") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  auto all = entries(1, path);
  for (Dtype dtype : {Dtype::float16, Dtype::bfloat16, Dtype::float64}) {
    CAPTURE(to_string(dtype));
    std::vector<io::NamedBytes> converted;
    for (const auto& [name, tensor] : all)
      converted.push_back({name, convert_to(tensor, {.dtype = dtype})});
    io::write_safetensors(path, converted);
    auto model = net(2);
    nn::load_weights(*model, path);
    CHECK(model->fc.weight.dtype() == Dtype::float32);
    Tensor rounded = convert_to(net(1)->conv.weight, {.dtype = dtype});
    CHECK(model->conv.weight.to_vector<float>() == rounded.to_vector<float>());
  }
}

TEST_CASE("the counters of batch norms may be missing, or have counted") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  auto all = entries(1, path);
  entry(all, "bn.num_batches_tracked").tensor = from_vector<int64_t>({1234}, {});
  io::write_safetensors(path, all);
  auto model = net(2);
  nn::load_weights(*model, path);
  std::erase_if(all, [](const auto& e) { return e.name == "bn.num_batches_tracked"; });
  io::write_safetensors(path, all);
  nn::load_weights(*model, path);
  CHECK(values(*model) == values(*net(1)));
  all.push_back({"fc.num_batches_tracked", zeros({})});
  CHECK(contains(refusal(all), "the model has no 'fc.num_batches_tracked'"));
}

TEST_CASE("names that only one side has are listed with the nearest on the other") {
  testing::TempFolder folder;
  auto all = entries(1, folder.path() + "/a");
  entry(all, "fc.weight").name = "head.weight";
  std::string text = refusal(all);
  CHECK(
      contains(text, "is not of this model: the file has no 'fc.weight' (nearest: 'head.weight')"));
  CHECK(contains(text, "; the model has no 'head.weight' (nearest: 'fc.weight')"));

  std::erase_if(all, [](const auto& e) { return e.name.starts_with("bn."); });
  CHECK(contains(refusal(all), "and 2 more; the model has no 'head.weight'"));
  all.erase(all.begin(), all.end());
  CHECK(contains(refusal(all),
                 "the file has no 'bn.bias', 'bn.running_mean', 'bn.running_var' and 4 more"));
}

TEST_CASE("other shapes and dtypes are told in the layout of the file") {
  testing::TempFolder folder;
  auto all = entries(1, folder.path() + "/a");
  auto changed = all;
  entry(changed, "conv.weight").tensor = zeros({4, 3, 5, 2});
  CHECK(
      contains(refusal(changed), "tensor 'conv.weight' is [4,3,5,2], but [4,3,2,5] in the model"));
  changed = all;
  entry(changed, "fc.weight").tensor = zeros({10, 4});
  CHECK(
      contains(refusal(changed),
               "tensor 'fc.weight' is [10,4], but [3,4] in the model; for other classes ask for"));
  changed = all;
  entry(changed, "fc.bias").tensor = zeros({3}, {.dtype = Dtype::int64});
  CHECK(contains(refusal(changed), "tensor 'fc.bias' is of int64, but of float32 in the model"));
}

TEST_CASE("weights that are not finite are refused by name, also those that the dtype makes so") {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  const auto text = [&](const std::string& name, double value, Dtype dtype) {
    auto all = entries(1, path);
    Tensor& bad = entry(all, name).tensor;
    bad = convert_to(bad, {.dtype = dtype});
    fill(slice(bad, 0, {.begin = 1, .end = 2}), value);
    io::write_safetensors(path, all);
    auto model = net(2);
    return error_text<FileError>([&] { nn::load_weights(*model, path); });
  };
  for (const char* name : {"conv.weight", "bn.running_var", "fc.bias"})
    for (double value : {std::nan(""), HUGE_VAL, -HUGE_VAL})
      for (Dtype dtype : {Dtype::float32, Dtype::bfloat16})
        CHECK(contains(text(name, value, dtype), "weights: '" + path + "': tensor '" + name +
                                                     "' has values that are not finite"));
  CHECK(contains(text("fc.weight", 1e300, Dtype::float64), "tensor 'fc.weight' has values"));
}

TEST_CASE("a new head keeps its values, whatever the file has for it") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  nn::save_weights(*net(1, 10), path);
  CHECK(nn::classifier_head(*net(1)) == "fc");
  CHECK(nn::classifier_head(*nn::make_model("mobilenet_v2", {.device = Device::meta()})) ==
        "classifier.1");
  CHECK(nn::classifier_head(*nn::make_model("mobilenet_v3_large", {.device = Device::meta()})) ==
        "classifier.3");
  auto model = net(2);
  CHECK_THROWS_AS(nn::load_weights(*model, path), FileError);
  nn::load_weights(*model, path, {.new_head = true});
  CHECK(model->conv.weight.to_vector<float>() == net(1)->conv.weight.to_vector<float>());
  CHECK(model->fc.weight.to_vector<float>() == net(2)->fc.weight.to_vector<float>());

  auto all = entries(1, path);
  std::erase_if(all, [](const auto& e) { return e.name.starts_with("fc."); });
  io::write_safetensors(path, all);
  nn::load_weights(*model, path, {.new_head = true});
  CHECK(contains(refusal(all), "the file has no 'fc.bias', 'fc.weight'"));
  entry(all, "bn.bias").name = "bn.beta";
  CHECK(contains(refusal(all, {.new_head = true}), "has no 'bn.bias' (nearest: 'bn.beta')"));
}

TEST_CASE("without strictness what both have is loaded, and the rest is reported") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  auto all = entries(1, path);
  entry(all, "fc.bias").name = "more";
  io::write_safetensors(path, all);
  auto model = net(2);
  nn::LoadReport report = nn::load_weights(*model, path, {.strict = false});
  CHECK(report.missing == std::vector<std::string>{"fc.bias"});
  CHECK(report.unexpected == std::vector<std::string>{"more"});
  CHECK(model->conv.weight.to_vector<float>() == net(1)->conv.weight.to_vector<float>());
  CHECK(model->fc.bias.to_vector<float>() == net(2)->fc.bias.to_vector<float>());
  entry(all, "fc.weight").tensor = zeros({10, 4});
  refusal(all, {.strict = false});
}

TEST_CASE("what all names of a file begin with is taken off where the model has none of them") {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod.model."}) {
    CAPTURE(prefix);
    auto all = entries(1, path);
    for (io::NamedBytes& one : all) one.name = prefix + one.name;
    io::write_safetensors(path, all);
    auto model = net(2);
    CHECK(nn::check_weights(*model, io::SafetensorsFile(path)).prefix == prefix);
    CHECK(nn::load_weights(*model, path).prefix == prefix);
    CHECK(values(*model) == values(*net(1)));
    // With a fault below it, names are told as the model has them.
    entry(all, prefix + std::string("bn.bias")).name = prefix + std::string("bn.beta");
    CHECK(contains(refusal(all), "has no 'bn.bias' (nearest: 'bn.beta')"));
  }
  nn::save_weights(*net(1), path);
  CHECK(nn::load_weights(*net(2), path).prefix.empty());
}

TEST_CASE("names of which not all begin with the same parts stay as they are") {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  auto all = entries(1, path);
  for (io::NamedBytes& one : all) one.name = "module." + one.name;
  all.push_back({"n_averaged", zeros({1})});
  CHECK(contains(refusal(all), "the model has no 'module.bn.bias'"));
  all = entries(1, path);
  for (io::NamedBytes& one : all) one.name = "module" + one.name;  // no part of its own
  CHECK(contains(refusal(all), "the model has no 'modulebn.bias'"));
}

TEST_CASE("a model whose own names all begin with a part is loaded by them") {
  struct Outer final : nn::Module {
    nn::Linear model{4, 2};
    Outer() { register_module("model", model); }
    Tensor forward(Tensor x) override { return model(std::move(x)); }
  };
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  Outer first, second;
  nn::initialize(first, 1);
  nn::save_weights(first, path);
  CHECK(nn::load_weights(second, path).prefix.empty());
  CHECK(values(second) == values(first));
}

TEST_CASE("a model on the meta device can be checked against a file, and not be loaded") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  nn::save_weights(*net(1), path);
  Net model;
  nn::MetaScope meta(model);
  nn::check_weights(model, io::SafetensorsFile(path));
  CHECK_THROWS_AS(nn::load_weights(model, path), DeviceError);
}

TEST_CASE("loading and saving take nothing from the account in force") {
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  auto model = net(1);
  auto account = memory::capped_host_account("direct", 0);
  memory::AccountScope scope(account);
  nn::save_weights(*model, path);
  nn::load_weights(*model, path);
  CHECK(account->stats().requests == 0);
}

TEST_CASE("a part that the model is known to leave out is passed over, and nothing beside it") {
  struct Outer final : nn::Module {
    struct Inner final : nn::Module {
      nn::Linear fc{4, 2};
      Inner() { register_module("fc", fc); }
      Tensor forward(Tensor x) override { return fc(std::move(x)); }
      std::vector<std::string> skipped_in_files() const override { return {"aux"}; }
    } inner;
    Outer() { register_module("inner", inner); }
    Tensor forward(Tensor x) override { return inner(std::move(x)); }
  } model;
  nn::initialize(model, 1);
  testing::TempFolder folder;
  std::string path = folder.path() + "/a";
  Tensor one = ones({1}), weight = zeros({2, 4}), bias = zeros({2});
  std::vector<io::NamedBytes> all{{"inner.fc.weight", weight},
                                  {"inner.fc.bias", bias},
                                  {"inner.aux.bn.num_batches_tracked", one},
                                  {"inner.aux.weight", one}};
  io::write_safetensors(path, all);
  nn::LoadReport report = nn::load_weights(model, path);
  CHECK(report.skipped ==
        std::vector<std::string>{"inner.aux.bn.num_batches_tracked", "inner.aux.weight"});
  CHECK(report.unexpected.empty());
  CHECK(model.inner.fc.weight.to_vector<float>() == weight.to_vector<float>());
  for (const char* name : {"aux.weight", "inner.auxiliary.weight"}) {
    CAPTURE(name);
    all.back().name = name;
    io::write_safetensors(path, all);
    std::string text = error_text<FileError>([&] { nn::load_weights(model, path); });
    CHECK(contains(text, "the model has no '" + std::string(name) + "'"));
  }
}
