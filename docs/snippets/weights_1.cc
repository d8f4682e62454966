// Weights to and from files: names, layouts, strictness, a new head, the card.
#include <cstdlib>
#include <filesystem>
#include <string>

#include "brim/brim.h"

using namespace brim;

namespace {

struct Net final : nn::Module {
  nn::Conv2d conv{3, 8, {.kernel = 5, .bias = false}};
  nn::BatchNorm2d bn{8};
  nn::Linear fc;

  explicit Net(int64_t classes) : fc(8, classes) {
    register_modules({{"conv", conv}, {"bn", bn}, {"fc", fc}});
    nn::initialize(*this, /*seed=*/1);
  }
  Tensor forward(Tensor x) override {
    x = bn(conv(std::move(x)), {.activation = Activation::relu});
    return fc(global_avg_pool(std::move(x)));
  }
};

void names_and_layouts(const std::string& path) {
  // [names]
  Net net(10);
  nn::save_weights(net, path);
  io::SafetensorsFile file(path);
  for (const io::TensorInfo& tensor : file.tensors())
    std::printf("%-22s %-8s %s\n", tensor.name.c_str(), to_string(tensor.dtype).data(),
                to_string(tensor.shape).c_str());
  // [/names]
  check(file.tensors().size() == 8, "five of the batch norm, three others");

  // [layout]
  Tensor ours = net.tensor("conv.weight"), theirs = file.read("conv.weight");
  check(ours.shape() == Shape{8, 5, 5, 3}, "[out, height, width, in]");
  check(theirs.shape() == Shape{8, 3, 5, 5}, "[out, in, height, width]");
  check(contiguous(permute(ours, {0, 3, 1, 2})).to_vector<float>() == theirs.to_vector<float>(),
        "the same numbers");
  // [/layout]
}

void strictness(const std::string& path) {
  // [strict]
  Net other(3);
  std::string why;
  try {
    nn::load_weights(other, path);
  } catch (const FileError& error) {
    why = error.what();
  }
  check(why.ends_with("tensor 'fc.bias' is [10], but [3] in the model; for other classes ask for a "
                      "new head"),
        "and nothing was loaded");
  // [/strict]

  // [head]
  check(nn::classifier_head(other) == "fc", "the last linear layer");
  nn::load_weights(other, path, {.new_head = true});
  other.freeze("");
  other.unfreeze("fc");  // the head alone learns
  // [/head]
}

void card(const std::string& path) {
  // [card]
  auto model = nn::make_model("resnet20", {.classes = 2});
  nn::save_weights(*model, path,
                   {.model = "resnet20",
                    .classes = {"cat", "dog"},
                    .size = 32,
                    .mean = {0.4914f, 0.4822f, 0.4465f},
                    .deviation = {0.2470f, 0.2435f, 0.2616f}});
  nn::LoadedModel loaded = nn::load_model(path);
  check(loaded.classes == 2 && loaded.card.classes[1] == "dog", "known from the file alone");
  check((*loaded.module)(zeros({1, 32, 32, 3})).shape() == Shape{1, 2}, "ready to be used");
  // [/card]
}

}  // namespace

int main() {
  std::string path = std::filesystem::temp_directory_path() / "brim-weights-XXXXXX";
  check(::mkstemp(path.data()) >= 0, "a file of our own");
  names_and_layouts(path);
  strictness(path);
  card(path);
  std::filesystem::remove(path);
}
