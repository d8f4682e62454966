#include "brim/apps/support/small_images.h"

#include <fmt/format.h>

#include <algorithm>

#include "brim/apps/support/train_weights.h"
#include "brim/nn/models/training_recipe.h"
#include "brim/nn/summary.h"

namespace brim::apps {
namespace {

/// The shape that the last convolution makes: [2,H,W,C], since batch norm wants two values.
Shape last_maps(nn::Module& model, int size) {
  const nn::Summary summary = nn::summarize(model, {2, size, size, 3});
  const auto last = std::find_if(
      summary.rows.rbegin(), summary.rows.rend(),
      [](const nn::SummaryRow& row) { return std::string_view(row.op).ends_with("conv2d"); });
  check(last != summary.rows.rend(), "a model for images has a convolution");
  return last->output;
}

/// ", or --model resnet20, which is made for 32x32", where there is one for such images.
std::string made_for(int size) {
  for (const std::string& name : nn::model_names())
    if (const int own = nn::training_recipe(name).size; own <= size)
      return fmt::format(", or --model {}, which is made for {}x{}", name, own, own);
  return "";
}

}  // namespace

std::string small_images_warning(const TrainFlags& flags, const TrainData& data) {
  const Shape maps = last_maps(*usual_model(flags, data), flags.size);
  if (maps[1] * maps[2] > 1) return "";
  return fmt::format(
      "warning: at {}x{} the last maps of {} are one pixel, so it learns little; try --size {}{}",
      flags.size, flags.size, flags.model, nn::training_recipe(flags.model).drawn_size,
      made_for(flags.size));
}

}  // namespace brim::apps
