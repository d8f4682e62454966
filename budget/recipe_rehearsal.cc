#include "brim/budget/recipe_rehearsal.h"

namespace brim {

RehearsalOptions rehearsal_of(const std::shared_ptr<const Recipe>& recipe, const Budget& budget) {
  // Epochs are all alike: two updates of each are looked at.
  constexpr int64_t kMany = 1000;
  RehearsalOptions rehearsal{
      .make_model = [recipe] { return make_model(*recipe); },
      .make_updating =
          [recipe](nn::Module& model) { return Updating{make_optimizer(*recipe, model)}; },
      .trainer = {.steps = kMany,
                  .seed = recipe->seed,
                  .clip = recipe->clip,
                  .fused_update = recipe->fused_update,
                  .precision = recipe->precision,
                  .gradients = recipe->gradients},
      .parameters = recipe->parameters,
      .batch = budget.micro_batch > 0 ? budget.micro_batch : budget.batch,
      .updates = kMany,
      .effective_batch = budget.batch,
      .loss =
          [recipe](nn::Module& model, int64_t examples) {
            return recipe->loss(model, make_batch(*recipe, {0, examples}, Device::meta(), nullptr));
          }};
  if (recipe->score)
    rehearsal.score = [recipe](nn::Module& model, int64_t examples) {
      score_of(*recipe, model, make_batch(*recipe, {0, examples}, Device::meta(), nullptr));
    };
  return rehearsal;
}

}  // namespace brim
