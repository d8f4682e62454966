#include "brim/apps/support/classify.h"

#include <algorithm>
#include <numeric>

#include "brim/autograd/op.h"
#include "brim/core/transfer.h"
#include "brim/data/decode.h"
#include "brim/data/image_folder.h"
#include "brim/data/read_file.h"
#include "brim/data/transforms.h"
#include "brim/ops/slice.h"
#include "brim/ops/softmax.h"
#include "brim/train/input.h"

namespace brim::apps {
namespace {

// As many pixels as a person would cut from the larger one: 224 of 256.
int resize_for(int size, const Preparation& like) {
  return static_cast<int>(int64_t{size} * like.resize / like.size);
}

Tensor prepared(const Preparation& preparation, const std::string& path) {
  data::Augment augment{.resize = preparation.resize};
  data::Image image =
      data::decode_image(data::read_file(path, data::ImageFolderOptions{}.max_file_bytes), path,
                         {.target = data::decode_target(preparation.size, augment),
                          .exif = preparation.exif,
                          .note = preparation.note});
  Tensor pixels = empty({1, preparation.size, preparation.size, 3}, {.dtype = Dtype::uint8});
  data::center_crop(image, preparation.size, preparation.resize, pixels.data<uint8_t>());
  pixels.storage()->note_write("classify");
  return prepare_input(pixels, {.mean = preparation.mean, .deviation = preparation.deviation});
}

std::string name_of(const nn::ModelCard& card, int64_t index) {
  return card.classes.empty() ? fmt::format("class {}", index)
                              : card.classes[static_cast<size_t>(index)];
}

}  // namespace

Preparation preparation_of(const nn::ModelCard& card, int size) {
  Preparation preparation;
  if (card.size > 0) {
    preparation.size = card.size;
    preparation.resize = std::max(card.size, card.resize);
  }
  if (size > 0) {
    preparation.resize = resize_for(size, preparation);
    preparation.size = size;
  }
  preparation.exif = card.exif.value_or(true);
  InputOptions imagenet;
  preparation.mean = card.mean.empty() ? imagenet.mean : card.mean;
  preparation.deviation = card.deviation.empty() ? imagenet.deviation : card.deviation;
  return preparation;
}

Tensor logits_of(nn::Module& model, const Tensor& x, int64_t classes, int64_t batch,
                 const std::string& name) {
  expect<ShapeError>(x.dim() == 4 && x.size(3) == 3, "infer",
                     "expected images [N,H,W,3], got {} in '{}'", to_string(x.shape()), name);
  expect<DtypeError>(is_floating(x.dtype()), "infer",
                     "expected numbers that are normalised already, got {} in '{}'",
                     to_string(x.dtype()), name);
  autograd::NoGradScope no_grad;
  const auto parameters = model.named_parameters();
  const Device device = parameters.empty() ? Device::cpu() : parameters.front().tensor.device();
  Tensor logits = empty({x.size(0), classes});
  for (int64_t begin = 0; begin < x.size(0); begin += batch) {
    SliceOptions rows{.begin = begin, .end = begin + batch};
    Tensor images = convert_to(contiguous(slice(x, 0, rows)), {.device = device});
    transfer_into(slice(logits, 0, rows), model(std::move(images)));
  }
  return logits;
}

std::vector<Guess> classify(nn::LoadedModel& model, const Preparation& preparation,
                            const std::string& path, size_t count) {
  Tensor logits = logits_of(*model.module, prepared(preparation, path), model.classes, 1, path);
  std::vector<double> chances =
      softmax(convert_to(logits, {.dtype = Dtype::float64})).to_vector<double>();
  std::vector<size_t> order(chances.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return chances[i]; });
  order.resize(std::min(count, order.size()));
  std::vector<Guess> guesses;
  for (size_t i : order) {
    auto index = static_cast<int64_t>(i);
    guesses.push_back({index, name_of(model.card, index), chances[i]});
  }
  return guesses;
}

}  // namespace brim::apps
