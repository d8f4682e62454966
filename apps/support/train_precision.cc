#include "brim/apps/support/train_precision.h"

#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "brim/apps/support/dtype_flag.h"
#include "brim/apps/support/flag_values.h"

namespace brim::apps {
namespace {

/// Of a number above 0; else nothing.
std::optional<double> parse_loss_scale(const std::string& text) {
  double scale = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  const bool is_all = error == std::errc{} && end == text.data() + text.size();
  if (!is_all || !(scale > 0 && scale <= std::numeric_limits<float>::max())) return {};
  return scale;
}

std::string check_loss_scale(const std::string& text) {
  if (text == "dynamic" || text == "none" || parse_loss_scale(text)) return {};
  return fmt::format("expected dynamic, none or a number above 0, got '{}'", text);
}

void check_precision(const TrainFlags& f) {
  expect<ValueError>(f.loss_scale == "dynamic" || f.precision() == Dtype::float16, "flags",
                     "--loss-scale is for --precision f16: {} has no need of it", f.precision_text);
  expect<ValueError>(f.precision_text != "auto" || !f.finds_batch(), "flags",
                     "--precision auto is what the batch needs, and --batch {} what the precision "
                     "leaves room for: give one of them",
                     f.batch_text);
}

void check_low_memory(const TrainFlags& f) {
  expect<ValueError>(f.gradients_text == "f32" || !f.fused_update, "flags",
                     "--fused-update keeps no gradients: --gradients {} would save nothing",
                     f.gradients_text);
  if (f.parameters_text == "f32") return;
  expect<ValueError>(f.precision() == Dtype::bfloat16, "flags",
                     "--parameters bf16 is for --precision bf16, not for {}", f.precision_text);
  expect<ValueError>(f.optimizer.ema == 0, "flags",
                     "--ema averages parameters, and in bf16 the averages would stand still");
}

}  // namespace

void add_precision_flags(App& app, TrainFlags& f) {
  app.add_option("--precision", f.precision_text,
                 "f32; bf16 or f16: mixed precision, products in halves and parameters in float32, "
                 "fewer bytes and other numbers; auto: f32 where that fits, else bf16")
      .shows_default()
      .type_name("TYPE")
      .check(one_of({"f32", "bf16", "f16", "auto"}));
  app.add_option(
         "--gradients", f.gradients_text,
         "what gradients of parameters wait for the update in: f32, or bf16: half the bytes "
         "and other numbers")
      .shows_default()
      .type_name("TYPE")
      .check(one_of({"f32", "bf16"}));
  app.add_option(
         "--parameters", f.parameters_text,
         "f32; or bf16, with --precision bf16: weights of products without a copy in f32, "
         "rounded stochastically by the update (with --optimizer-state bf16: pure bfloat16)")
      .shows_default()
      .type_name("TYPE")
      .check(one_of({"f32", "bf16"}));
}

void add_loss_scale_flag(App& app, TrainFlags& f) {
  app.add_option("--loss-scale", f.loss_scale,
                 "with --precision f16, what the loss is multiplied by so that small gradients are "
                 "not 0: dynamic, a number, or none")
      .shows_default()
      .type_name("SCALE")
      .check({check_loss_scale});
}

void check_precision_flags(const TrainFlags& f) {
  check_precision(f);
  check_low_memory(f);
}

Dtype TrainFlags::precision() const { return dtype_named(precision_text); }

std::unique_ptr<optim::LossScaler> make_scaler(const TrainFlags& flags) {
  if (flags.precision() != Dtype::float16 || flags.loss_scale == "none") return nullptr;
  if (const std::optional<double> scale = parse_loss_scale(flags.loss_scale))
    return std::make_unique<optim::LossScaler>(optim::LossScaler::fixed(*scale));
  return std::make_unique<optim::LossScaler>();
}

}  // namespace brim::apps
