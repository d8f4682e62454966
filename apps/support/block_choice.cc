#include "brim/apps/support/block_choice.h"

#include "brim/apps/support/drawn_images.h"
#include "brim/shrink/residual_blocks.h"

namespace brim::apps {

std::vector<std::string> choose_blocks(
    const PruneFlags& flags, const TrainData& data,
    const std::function<std::unique_ptr<nn::Module>()>& make_model,
    const std::function<void(const std::string&)>& say) {
  expect<ValueError>(data.validation != nullptr, "flags",
                     "--remove-blocks needs images to validate, and {} has none", flags.train.data);
  const Shape input{1, flags.train.size, flags.train.size, 3};
  std::vector<std::string> left = shrink::residual_blocks(*make_model(), input, {flags.exclude});
  const auto wanted = static_cast<size_t>(flags.remove_blocks);
  expect<ValueError>(left.size() >= wanted, "flags",
                     "--remove-blocks {}: there are {} blocks of {} that can go", wanted,
                     left.size(), flags.train.model);
  DrawnImages images(data, flags.sensitivity_images);
  std::vector<std::string> gone;
  auto accuracy_without = [&](const std::string& block) {
    const std::unique_ptr<nn::Module> model = make_model();
    for (const std::string& name : gone) model->module(name).bypass();
    model->module(block).bypass();
    return images.accuracy(*model);
  };
  while (gone.size() < wanted) {
    size_t best = 0;
    double accuracy = -1;
    for (size_t i = 0; i < left.size(); ++i)
      if (const double without = accuracy_without(left[i]); without > accuracy) {
        accuracy = without;
        best = i;
      }
    gone.push_back(left[best]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    say(fmt::format("{} goes: accuracy {:.2f}% on {} images without {}", gone.back(),
                    100 * accuracy, images.count(),
                    gone.size() == 1 ? "it" : "it and those before it"));
  }
  return gone;
}

}  // namespace brim::apps
