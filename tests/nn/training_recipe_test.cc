// Every model of the registry says how it is trained, and its sizes suit it.
#include "brim/nn/models/training_recipe.h"

#include <doctest/doctest.h>

#include "brim/nn/models/registry.h"
#include "brim/nn/summary.h"
#include "brim/tests/support/errors.h"

using namespace brim;

TEST_CASE("every model has a recipe, whose smaller images leave its last maps more than a pixel") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    const nn::TrainingRecipe& recipe = nn::training_recipe(name);
    CHECK((recipe.optimizer == "sgd" || recipe.optimizer == "adamw"));
    CHECK(recipe.rate > 0);
    CHECK(recipe.batch > 0);
    CHECK((recipe.optimizer == "sgd") == (recipe.momentum > 0));
    CHECK(recipe.drawn_size <= recipe.size);
    auto model = nn::make_model(name, {.seed = std::nullopt, .device = Device::meta()});
    Shape maps;
    for (const nn::SummaryRow& row :
         nn::summarize(*model, {2, recipe.drawn_size, recipe.drawn_size, 3}).rows)
      if (row.op.ends_with("conv2d")) maps = row.output;
    CHECK(maps[1] * maps[2] > 1);
  }
}

TEST_CASE("an unknown model has no recipe, and the nearest name is said") {
  CHECK_THROWS_WITH_AS(nn::training_recipe("resnet81"),
                       "model: no model is called 'resnet81'; did you mean 'resnet18'?",
                       ValueError);
}
