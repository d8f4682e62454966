// The infer program from outside: its logits and classes are those of the model in this process,
// and whatever it is given, it answers or says in one line why it does not.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "brim/autograd/op.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/parallel.h"
#include "brim/data/device_batch.h"
#include "brim/data/image_folder.h"
#include "brim/io/npy.h"
#include "brim/io/tensor_bytes.h"
#include "brim/nn/fold.h"
#include "brim/nn/models/load_model.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/ops/permute.h"
#include "brim/ops/slice.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/npy_bytes.h"
#include "brim/tests/support/pictures.h"
#include "brim/tests/support/safetensors_bytes.h"
#include "brim/tests/support/subprocess.h"
#include "brim/train/input.h"

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

/// A model of seven classes in a file, for images of 32 pixels out of 40.
struct Place {
  TempFolder folder;
  std::string weights = file("w.safetensors");
  nn::ModelCard card{.model = "resnet20",
                     .classes = {"a", "b", "c", "d", "e", "f", "g"},
                     .size = 32,
                     .resize = 40,
                     .mean = {0.5f, 0.4f, 0.3f},
                     .deviation = {0.2f, 0.3f, 0.4f}};

  Place() {
    nn::save_weights(*nn::make_model("resnet20", {.classes = 7, .seed = 3}), weights, card);
  }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
  std::string with_weights() const { return "--weights " + weights; }
};

Finished infer(const std::string& arguments) {
  return run_command("apps/infer --threads 1 " + arguments);
}

void check_refused(const std::string& arguments, const std::string& text) {
  CAPTURE(arguments);
  Finished run = infer(arguments);
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(contains(run.err, text));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(run.out.empty());
}

/// The logits here, with one thread as there, of `batch` images at once.
std::vector<float> logits_here(const Place& place, const Tensor& x, int64_t batch,
                               bool folds = true) {
  set_num_threads(1);
  nn::LoadedModel loaded = nn::load_model(place.weights);
  if (folds) nn::fold_batch_norms(*loaded.module, {1, 32, 32, 3});
  autograd::NoGradScope no_grad;
  std::vector<float> all;
  for (int64_t begin = 0; begin < x.size(0); begin += batch) {
    Tensor part = contiguous(slice(x, 0, {.begin = begin, .end = begin + batch}));
    for (float logit : (*loaded.module)(std::move(part)).to_vector<float>()) all.push_back(logit);
  }
  return all;
}

/// A file of the same array in Fortran order.
std::vector<uint8_t> fortran_bytes(const Tensor& x) {
  std::string shape = fmt::format("({})", fmt::join(x.shape(), ","));
  std::vector<uint8_t> bytes = npy_bytes(npy_dict("'<f4'", shape, "True"), 0);
  Tensor turned = contiguous(permute(x, {3, 2, 1, 0}));
  for (std::byte byte : io::bytes_of(turned)) bytes.push_back(static_cast<uint8_t>(byte));
  return bytes;
}

}  // namespace

TEST_CASE("help shows the flags with examples") {
  Finished run = infer("--help");
  CHECK(run.code == 0);
  for (const char* text : {"--weights", "--image", "--input", "--no-fold", "Examples:"})
    CHECK(contains(run.out, text));
  for (const std::string& model : nn::model_names()) CHECK(contains(run.out, model));
}

TEST_CASE("logits of an array are those of the model, in batches of any size") {
  Place place;
  Tensor x = uniform({5, 32, 32, 3}, -2, 2, RandomKey{1});
  io::write_npy(place.file("x.npy"), x);
  for (int64_t batch : {32, 2, 1}) {
    CAPTURE(batch);
    Finished run = infer(place.with_weights() + " --batch " + std::to_string(batch) + " --input " +
                         place.file("x.npy") + " --output " + place.file("y.npy"));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    CHECK(contains(run.out, "logits [5,7] of resnet20"));
    Tensor y = io::read_npy(place.file("y.npy"));
    CHECK(y.shape() == Shape{5, 7});
    CHECK(y.to_vector<float>() == logits_here(place, x, batch));
  }
}

TEST_CASE("--size is taken where an array has it, and refused where not; --batch with images too") {
  Place place;
  io::write_npy(place.file("x.npy"), zeros({2, 32, 32, 3}));
  io::write_npy(place.file("wide.npy"), zeros({2, 32, 40, 3}));
  const std::string out = " --output " + place.file("y.npy");
  const std::string run = place.with_weights() + out + " --input ";
  CHECK(infer(run + place.file("x.npy") + " --size 32").code == 0);
  check_refused(run + place.file("x.npy") + " --size 40",
                "--size 40 wants [N,40,40,3], but '" + place.file("x.npy") + "' is [2,32,32,3]");
  check_refused(run + place.file("wide.npy") + " --size 32", "is [2,32,40,3]");
  place.folder.write("a.jpg", jpeg_picture(1));
  CHECK(infer(place.with_weights() + " --batch 2 --image " + place.file("a.jpg")).code == 0);
}

TEST_CASE("a prefix of all names in a file is taken off, and said") {
  Place place;
  const io::SafetensorsFile file(place.weights);
  std::vector<io::NamedBytes> all;
  for (const io::TensorInfo& tensor : file.tensors())
    all.push_back({"module." + tensor.name, file.read(tensor.name)});
  io::write_safetensors(place.file("prefixed"), all, file.metadata());
  place.folder.write("a.jpg", jpeg_picture(1));
  const std::string image = " --image " + place.file("a.jpg");
  const Finished plain = infer(place.with_weights() + image);
  const Finished run = infer("--weights " + place.file("prefixed") + image);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK(run.out == "the names in " + place.file("prefixed") +
                       " begin with 'module.', which is taken off\n" + plain.out);
}

TEST_CASE("batch norms are folded, unless told otherwise, and logits stay but for rounding") {
  Place place;
  const Tensor x = uniform({2, 32, 32, 3}, -2, 2, RandomKey{1});
  io::write_npy(place.file("x.npy"), x);
  const auto logits = [&](const std::string& flags) {
    Finished run = infer(place.with_weights() + flags + " --input " + place.file("x.npy") +
                         " --output " + place.file("y.npy"));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return io::read_npy(place.file("y.npy")).to_vector<float>();
  };
  const auto plain = logits(" --no-fold"), folded = logits("");
  CHECK(plain == logits_here(place, x, 2, /*folds=*/false));
  CHECK(folded == logits_here(place, x, 2));
  CHECK(folded != plain);
  const auto largest = std::ranges::max(plain, {}, [](float v) { return std::abs(v); });
  // 19 layers, whose sums of up to 576 terms each round at one place more or less.
  const double bound = 19 * std::log2(576) * 6e-8 * std::abs(largest);
  for (size_t i = 0; i < plain.size(); ++i) CHECK(std::abs(folded[i] - plain[i]) <= 4 * bound);
}

TEST_CASE("arrays of other precisions, in Fortran order, or of no image are taken") {
  Place place;
  auto logits = [&] {
    Finished run = infer(place.with_weights() + " --json - --input " + place.file("x.npy") +
                         " --output " + place.file("y.npy"));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    Tensor y = io::read_npy(place.file("y.npy"));
    CHECK(json::parse(run.out)["shape"] == json({y.size(0), y.size(1)}));
    return y.to_vector<float>();
  };
  Tensor x = uniform({2, 32, 32, 3}, -2, 2, RandomKey{1});
  io::write_npy(place.file("x.npy"), x);
  std::vector<float> expected = logits();
  io::write_npy(place.file("x.npy"), convert_to(x, {.dtype = Dtype::float64}));
  CHECK(logits() == expected);
  place.folder.write("x.npy", fortran_bytes(x));
  CHECK(logits() == expected);
  io::write_npy(place.file("x.npy"), empty({0, 32, 32, 3}));
  CHECK(logits().empty());
}

TEST_CASE("an image goes through what the card says, as a loader would do it") {
  Place place;
  for (int i = 0; i < 2; ++i)
    place.folder.write("pictures/all/" + std::to_string(i) + ".jpg", jpeg_picture(i));
  auto pictures = std::make_shared<data::ImageFolder>(place.file("pictures"));
  data::Loader loader(
      pictures,
      {.batch = 1, .size = 32, .workers = 0, .shuffle = false, .augment = {.resize = 40}});
  loader.start_epoch(0);
  for (int64_t i = 0; auto batch = loader.next(); ++i) {
    Tensor x = prepare_input(data::to_device(*batch).images,
                             {.mean = place.card.mean, .deviation = place.card.deviation});
    std::vector<float> logits = logits_here(place, x, 1);
    auto best = std::ranges::max_element(logits) - logits.begin();
    Finished run = infer(place.with_weights() + " --json - --image " + pictures->describe(i));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    json top = json::parse(run.out)["top"];
    REQUIRE(top.size() == 5);
    CHECK(top[0]["index"] == best);
    CHECK(top[0]["name"] == place.card.classes[static_cast<size_t>(best)]);
    double sum = 0;
    for (float logit : logits) sum += std::exp(double{logit} - logits[static_cast<size_t>(best)]);
    CHECK(top[0]["probability"].get<double>() == doctest::Approx(1 / sum));
    for (size_t k = 1; k < top.size(); ++k)
      CHECK(top[k]["probability"] <= top[k - 1]["probability"]);
  }
}

TEST_CASE("several images are told one after the other, for people") {
  Place place;
  std::string a = place.folder.write("a.jpg", jpeg_picture(1)),
              b = place.folder.write("b.jpg", jpeg_picture(2));
  Finished run = infer(place.with_weights() + " --image " + a + " " + b);
  REQUIRE(run.code == 0);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') == 12);
  CHECK(run.out.find(a) < run.out.find(b));
  CHECK(contains(run.out, "%  "));
  CHECK(infer(place.with_weights() + " --quiet --image " + a).out.empty());
  CHECK(infer(place.with_weights() + " --seed 7 --classes 7 --image " + a + " " + b).out ==
        run.out);
}

TEST_CASE("a file without a card needs the model's name, and has numbers for classes") {
  Place place;
  nn::save_weights(*nn::make_model("resnet20", {.classes = 3}), place.weights);
  std::string image = place.folder.write("a.jpg", jpeg_picture(1));
  check_refused(place.with_weights() + " --image " + image, "does not say which model it is");
  check_refused(place.with_weights() + " --model resnet18 --image " + image, "not of this model");
  check_refused(place.with_weights() + " --model resnet81 --image " + image,
                "did you mean 'resnet18'?");
  Finished run = infer(place.with_weights() + " --model resnet20 --size 32 --image " + image);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  for (const char* name : {"class 0", "class 1", "class 2"}) CHECK(contains(run.out, name));
}

TEST_CASE("flags that do not go together are refused") {
  Place place;
  check_refused("--image a.jpg", "--weights is required");
  check_refused(place.with_weights(), "expected either --image or --input");
  check_refused(place.with_weights() + " --image a.jpg --input x.npy", "expected either --image");
  check_refused(place.with_weights() + " --input x.npy", "expected --input and --output together");
  check_refused(place.with_weights() + " --image a.jpg --output y.npy", "together");
  check_refused(place.with_weights() + " --image a.jpg --classes 5",
                "--classes 5, but the model in '" + place.weights + "' has 7");
  check_refused(place.with_weights() + " --image a.jpg --size 4097", "--size");
  check_refused(place.with_weights() + " --imgae a.jpg", "did you mean '--image'?");
  if (const std::string why = cuda::why_no_device(); !why.empty())
    check_refused(place.with_weights() + " --image a.jpg --device cuda",
                  "--device cuda cannot infer: " + why);
  check_refused(place.with_weights() + " --image a.jpg --model resnet18", "not a resnet18");
  check_refused("--weights /no/such --image a.jpg", "/no/such");
}

TEST_CASE("bad arrays and images are named") {
  Place place;
  auto array = [&](const std::string& text) {
    check_refused(place.with_weights() + " --input " + place.file("x.npy") + " --output " +
                      place.file("y.npy"),
                  text);
    CHECK_FALSE(std::filesystem::exists(place.file("y.npy")));
  };
  auto npy = [&](const char* descr, const char* shape, int data) {
    place.folder.write("x.npy", npy_bytes(npy_dict(descr, shape), data));
  };
  array("No such file");
  npy("'|O'", "(1,)", 8);
  array("Python objects");
  npy("'>f4'", "(1,)", 4);
  array("big-endian");
  npy("'<f4'", "(1, 2, 2, 3)", 47);
  array("does not take the 47 bytes");
  io::write_npy(place.file("x.npy"), zeros({1, 3, 32, 32}));
  array("expected images [N,H,W,3], got [1,3,32,32]");
  io::write_npy(place.file("x.npy"), zeros({1, 32, 32, 3}, {.dtype = Dtype::uint8}));
  array("normalised already, got uint8");
  io::write_npy(place.file("x.npy"), zeros({1, 32, 32, 3}));
  check_refused(place.with_weights() + " --input " + place.file("x.npy") + " --output /no/y.npy",
                "/no/y.npy");
  std::string image = place.folder.write("bad.jpg", std::vector<uint8_t>{1, 2, 3});
  check_refused(place.with_weights() + " --image " + image, image);
}

TEST_CASE("images that are not finite are told of, and give NaN, folded or not") {
  Place place;
  Tensor x = uniform({4, 32, 32, 3}, -2, 2, RandomKey{1});
  fill(slice(x, 0, {.begin = 1, .end = 2}), std::nan(""));
  fill(slice(x, 0, {.begin = 3, .end = 4}), HUGE_VAL);
  io::write_npy(place.file("x.npy"), x);
  for (const char* flags : {"", " --no-fold", " --batch 1"}) {
    CAPTURE(flags);
    const Finished run = infer(place.with_weights() + flags + " --input " + place.file("x.npy") +
                               " --output " + place.file("y.npy"));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    CHECK(run.err == "infer: warning: '" + place.file("x.npy") +
                         "': 2 of 4 images have values that are not finite, first image 1 (from "
                         "0)\n");
    const auto y = io::read_npy(place.file("y.npy")).to_vector<float>();
    for (size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 7 % 2 == 1));
  }
}

TEST_CASE("weights that are not finite are named") {
  Place place;
  for (const char* name : {"layer2.1.conv2.weight", "bn1.running_var", "fc.bias"})
    for (double value : {std::nan(""), HUGE_VAL}) {
      const auto model = nn::make_model("resnet20", {.classes = 7, .seed = 3});
      fill(slice(model->tensor(name), 0, {.begin = 2, .end = 3}), value);
      nn::save_weights(*model, place.weights, place.card);
      check_refused(
          place.with_weights() + " --image a.jpg",
          "'" + place.weights + "': tensor '" + name + "' has values that are not finite");
    }
}

TEST_CASE("bad files of weights are named") {
  Place place;
  std::string image = " --image " + place.folder.write("a.jpg", jpeg_picture(1));
  auto weights = [&](std::vector<uint8_t> bytes, const std::string& text) {
    check_refused("--weights " + place.folder.write("bad", bytes) + image, text);
  };
  weights({255, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, "states a header of 255 bytes, but has 2");
  weights(safetensors_bytes(two_tensors("[0,2]", "[1,3]"), 3), "tensors 'a' and 'b' overlap");
  weights(safetensors_bytes(two_tensors("[0,2]", "[2,4]"), 3),
          "tensor 'b' lies at bytes 2 to 4 of 3");
  weights(safetensors_bytes(R"({"__metadata__":{"brim.size":"-1"}})", 0), "brim.size");
  weights(safetensors_bytes(R"({"__metadata__":{"brim.model":"resnet20"}})", 0),
          "is not of this model: the file has no 'bn1.bias'");
}
