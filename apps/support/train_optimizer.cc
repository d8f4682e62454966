#include "brim/apps/support/train_optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "brim/apps/support/dtype_flag.h"
#include "brim/apps/support/flag_values.h"

namespace brim::apps {
namespace {

using Names = std::vector<std::string>;

const Names& known_optimizers() {
  static const Names names{"sgd", "adamw"};
  return names;
}

bool exempts(const OptimizerFlags& flags, const char* kind) {
  return std::ranges::find(flags.no_decay, kind) != flags.no_decay.end();
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerFlags& flags, nn::Module& model) {
  auto groups =
      optim::no_decay(model, {.norms = exempts(flags, "norm"), .biases = exempts(flags, "bias")});
  const double decay = flags.weight_decay.value();
  const Dtype state = dtype_named(flags.state_text);
  if (flags.name == "adamw")
    return std::make_unique<optim::AdamW>(
        model.named_parameters(),
        optim::AdamWOptions{
            .weight_decay = decay, .state = state, .seed = flags.seed, .groups = groups});
  double momentum = flags.momentum.value();
  return std::make_unique<optim::Sgd>(model.named_parameters(),
                                      optim::SgdOptions{.momentum = momentum,
                                                        .nesterov = momentum > 0,
                                                        .weight_decay = decay,
                                                        .state = state,
                                                        .seed = flags.seed,
                                                        .groups = groups});
}

/// Where the optimizer is not the one that the model has a recipe for.
nn::TrainingRecipe usual_recipe(const std::string& optimizer) {
  if (optimizer == "adamw")
    return {.optimizer = optimizer, .rate = 1e-3, .batch = 64, .weight_decay = 0.01};
  return {.optimizer = optimizer, .rate = 0.1, .batch = 64, .weight_decay = 5e-4, .momentum = 0.9};
}

/// The rate is what was given, or the recipe's.
optim::RateRecipe recipe_of(const OptimizerFlags& flags, int64_t batch) {
  const bool own = flags.rate == 0;
  return {.rate = own ? flags.share_of_usual * flags.recipe.rate : flags.rate,
          .batch = flags.recipe_batch > 0 ? flags.recipe_batch
                   : own                  ? flags.recipe.batch
                                          : batch};
}

int64_t trained_elements(const nn::Module& model) {
  int64_t count = 0;
  for (const nn::NamedTensor& parameter : model.named_parameters())
    if (parameter.tensor.requires_grad()) count += parameter.tensor.numel();
  return count;
}

}  // namespace

void add_optimizer_flags(App& app, OptimizerFlags& f) {
  app.add_option("--optimizer", f.name, "sgd or adamw (default: the model's)")
      .type_name("NAME")
      .check(one_of(known_optimizers()));
  app.add_option(
         "--lr", f.rate,
         "peak learning rate (default: the model's, for the images of an update; with "
         "--init a quarter of it; of the other optimizer sgd 0.1, adamw 0.001 at 64 images)")
      .check(positive_number());
  app.add_option(
         "--recipe-batch", f.recipe_batch,
         "images of an update that --lr and --warmup are meant for; with others they follow "
         "--rate-rule (default with --lr: those of the run)")
      .check(whole_number(1, kMostImages));
  app.add_option("--rate-rule", f.rate_rule,
                 "how the rate follows the images of an update: linear, sqrt or none (default: sgd "
                 "linear, adamw sqrt)")
      .type_name("NAME")
      .check(one_of({"linear", "sqrt", "none"}));
  app.add_option("--momentum", f.momentum,
                 "Nesterov momentum of sgd (default: the model's, or 0.9)")
      .check(number({.most = 1, .below_most = true}));
  app.add_option("--weight-decay", f.weight_decay,
                 "sgd: L2 penalty; adamw: decoupled (default: the model's; of the other optimizer "
                 "sgd 0.0005, adamw 0.01)")
      .check(number({.most = 1e30}));
  app.add_option("--optimizer-state", f.state_text,
                 "what momentum and averages of gradients are kept in: f32, or bf16, rounded "
                 "stochastically: half the bytes and other numbers")
      .shows_default()
      .type_name("TYPE")
      .check(one_of({"f32", "bf16"}));
  app.add_option("--no-decay", f.no_decay, "norm, bias or norm,bias: those do not decay")
      .type_name("KIND")
      .check(one_of({"norm", "bias"}))
      .may_repeat(',');
  app.add_option("--clip-norm", f.clip.norm, "the largest norm of all gradients together")
      .check(positive_number());
  app.add_option("--clip-value", f.clip.value, "the largest magnitude of a gradient's element")
      .check(positive_number());
  app.add_option("--ema", f.ema,
                 "average the weights with this decay, 0.999 say (less in the first updates), and "
                 "validate the averages")
      .check(number({.most = 1, .below_most = true}));
  app.add_option("--freeze", f.freeze,
                 "leave a module or parameter, layer1 say, as it was loaded; may be repeated")
      .type_name("MODULE")
      .check(file_name())
      .may_repeat();
}

void check_optimizer_flags(OptimizerFlags& f, const nn::TrainingRecipe& recipe) {
  if (f.name.empty()) f.name = recipe.optimizer;
  f.recipe = f.name == recipe.optimizer ? recipe : usual_recipe(f.name);
  bool adamw = f.name == "adamw";
  expect<ValueError>(!adamw || !f.momentum, "flags",
                     "--momentum is for sgd, adamw has none: say --optimizer sgd");
  if (!adamw && !f.momentum) f.momentum = f.recipe.momentum;
  if (!f.weight_decay) f.weight_decay = f.recipe.weight_decay;
  if (f.rate_rule.empty()) f.rate_rule = adamw ? "sqrt" : "linear";
  optim::rate_rule_named(f.rate_rule);
}

optim::ScaledRate rate_for(const OptimizerFlags& flags, int64_t batch, int64_t warmup) {
  optim::RateRecipe recipe = recipe_of(flags, batch);
  const bool warmup_of_recipe = flags.recipe_batch > 0;
  if (warmup_of_recipe) recipe.warmup = warmup;
  auto scaled = optim::scale_rate(recipe, batch, optim::rate_rule_named(flags.rate_rule));
  return {scaled.rate, warmup_of_recipe ? scaled.warmup : warmup};
}

Updating make_updating(const OptimizerFlags& flags, nn::Module& model) {
  for (const std::string& prefix : flags.freeze) model.freeze(prefix);
  Updating updating{make_optimizer(flags, model), nullptr};
  if (flags.ema > 0)
    updating.ema =
        std::make_unique<optim::Ema>(model, optim::EmaOptions{.decay = flags.ema, .warmup = true});
  return updating;
}

std::string describe(const OptimizerFlags& flags, int64_t batch, int64_t warmup,
                     const nn::Module& model) {
  const optim::RateRecipe recipe = recipe_of(flags, batch);
  const auto rule = optim::rate_rule_named(flags.rate_rule);
  std::string text = fmt::format("{}: rate {:.4g}", flags.name, rate_for(flags, batch, 0).rate);
  if (recipe.batch != batch && rule != optim::RateRule::none)
    text = fmt::format("{}: {}", flags.name, optim::describe(recipe, batch, rule));
  if (int64_t updates = rate_for(flags, batch, warmup).warmup; updates > 0)
    text += fmt::format(", warm-up of {} updates", updates);
  if (flags.momentum.value_or(0) > 0)
    text += fmt::format(", Nesterov momentum {:.4g}", *flags.momentum);
  text += fmt::format(", weight decay {:.4g}", flags.weight_decay.value());
  if (flags.state_text != "f32") text += ", its state in bfloat16";
  if (!flags.no_decay.empty()) text += fmt::format(" but for {}", fmt::join(flags.no_decay, ", "));
  if (flags.clip.value < optim::ClipOptions::kNone)
    text += fmt::format("; gradients clipped to {:.4g}", flags.clip.value);
  if (flags.clip.norm < optim::ClipOptions::kNone)
    text += fmt::format("; gradients clipped to norm {:.4g}", flags.clip.norm);
  if (flags.ema > 0) text += fmt::format("; weights averaged by {:.6g}", flags.ema);
  if (!flags.freeze.empty())
    text += fmt::format("; frozen: {}, {} parameters train", fmt::join(flags.freeze, ", "),
                        trained_elements(model));
  return text;
}

}  // namespace brim::apps
