#include "brim/apps/support/prune_flags.h"

#include <fmt/ranges.h>

#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/planned_device.h"
#include "brim/io/atomic_file.h"

namespace brim::apps {
namespace {

// The file says which model it is and how images were prepared for it, unless the flags do.
void take_model(PruneFlags& f) {
  const nn::ModelCard card = nn::card_of(io::SafetensorsFile(f.weights));
  if (f.train.model.empty()) f.train.model = card.model;
  if (f.train.size == 0) f.train.size = card.size;
  if (!f.train.exif) f.train.exif = card.exif;
  expect<ValueError>(!f.train.model.empty(), "flags",
                     "--weights {} does not say which model it is: say --model", f.weights);
}

}  // namespace

shrink::PruneOptions PruneFlags::options() const {
  return {.criterion = shrink::criterion_of(criterion),
          .global = !per_layer,
          .multiple = multiple,
          .least = least,
          .exclude = exclude,
          .seed = train.seed};
}

void add_flags(App& app, PruneFlags& f) {
  app.add_option("--weights", f.weights, "safetensors file of the trained model, see train --save")
      .required()
      .type_name("FILE")
      .check(file_name());
  app.add_option("--to", f.to,
                 "what of the model's is to be left, and how much: " + goal_help() +
                     " (default flops=0.5, or with --remove-blocks as many as there are)")
      .type_name("GOAL")
      .check(parsed_by([](const std::string& text) { parse_goal(text, "--to"); }));
  app.add_option("--remove-blocks", f.remove_blocks,
                 "first remove so many residual blocks: one after the other, that which costs the "
                 "least accuracy, each by itself")
      .check(whole_number(0));
  app.add_option(
         "--criterion", f.criterion,
         fmt::format("which channels go first: {}", fmt::join(shrink::criterion_names(), ", ")))
      .shows_default()
      .type_name("NAME")
      .check(one_of(shrink::criterion_names()));
  app.add_flag("--per-layer", f.per_layer,
               "the same share of each group of layers, not the least important of all");
  app.add_option("--multiple", f.multiple, "channels that a layer keeps are a multiple of this")
      .shows_default()
      .check(whole_number(1));
  app.add_option("--least", f.least, "share of its channels that every layer keeps")
      .shows_default()
      .check(number({.most = 1}));
  app.add_option("--exclude", f.exclude,
                 "leave a module, layer1 say, as wide as it is; may be repeated")
      .type_name("MODULE")
      .check(file_name());
  app.add_option("--gradient-batches", f.gradient_batches,
                 "batches whose gradients --criterion taylor looks at")
      .shows_default()
      .check(whole_number(1));
  app.add_option("--finetune-epochs", f.finetune_epochs,
                 "then train the pruned model so long, with the other flags, which are train's; "
                 "at a quarter of its usual rate, unless --lr says another")
      .check(whole_number(0));
  app.add_option("--sensitivity", f.sensitivity,
                 "before that, draw what each layer's channels are worth: accuracy without a share "
                 "of them, as a page for a browser")
      .type_name("FILE.html")
      .check(file_name());
  app.add_option("--sensitivity-images", f.sensitivity_images,
                 "images to validate on for that, and for --remove-blocks")
      .shows_default()
      .check(whole_number(1));
  f.train.model.clear();
  add_flags(app, f.train);
  app.get("--model").description("which it is (default: what the file says)");
  app.get("--exif").description(
      "turn pictures the way up that EXIF says, or leave their pixels as they are stored (default: "
      "what the file says, else turn them)");
  app.get("--size").description(
      "height and width of the input in pixels (default: what the file says)");
}

void check_flags(PruneFlags& f) {
  expect<ValueError>(f.train.prune.to.empty(), "flags", "--prune-to is of train; give --to");
  expect<ValueError>(f.train.init.empty(), "flags", "the model is that of --weights, not --init");
  expect<ValueError>(!f.train.new_head, "flags",
                     "--new-head would prune a model without a classifier");
  expect<ValueError>(f.finetune_epochs == 0 || !f.train.save.empty(), "flags",
                     "--finetune-epochs needs --save for what it trains");
  if (f.to.empty() && f.remove_blocks == 0) f.to = "flops=0.5";
  if (!f.to.empty()) f.goal = parse_goal(f.to, "--to");
  shrink::criterion_of(f.criterion);
  take_model(f);
  if (f.finetune_epochs > 0) f.train.epochs = f.finetune_epochs;
  f.train.init = f.weights;
  take_device(f.train, "prune");
  expect<DeviceError>(f.train.device.is_cpu(), "device",
                      "prune removes channels on the cpu, got --device {}", f.train.device_name);
  check_flags(f.train);
  expect<ValueError>(f.sensitivity.empty() || f.criterion != "taylor", "flags",
                     "--sensitivity looks at weights: taylor wants gradients; take another "
                     "criterion for it");
  expect<ValueError>(f.train.batch > 0, "flags",
                     "prune measures at one size: give --batch a number, not {}",
                     f.train.batch_text);
  if (!f.train.save.empty()) io::check_writable(f.train.save, "save");
  if (!f.sensitivity.empty()) io::check_writable(f.sensitivity, "sensitivity");
}

}  // namespace brim::apps
