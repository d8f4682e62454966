#include "brim/apps/support/train_pruning.h"

#include <fmt/ranges.h>

#include <charconv>

#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/prune_goal.h"
#include "brim/apps/support/train_weights.h"

namespace brim::apps {
namespace {

constexpr std::string_view kModel = "model.";

// What is not as usual in the checkpoint.
nn::ModelSizes sizes_in(const io::SafetensorsFile& checkpoint, const TrainFlags& flags,
                        const TrainData& data) {
  nn::ModelSizes sizes{.bypassed = flags.init_sizes.bypassed};
  usual_model(flags, data)
      ->for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
        const io::TensorInfo* info = checkpoint.find(std::string(kModel) + name);
        if (info != nullptr && info->shape != slot.tensor->shape())
          sizes.shapes[name] = info->shape;
      });
  return sizes;
}

int64_t number_in(const io::Metadata& strings, const char* name) {
  int64_t number = 0;
  auto found = strings.find(name);
  if (found != strings.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  return number;
}

}  // namespace

void add_pruning_flags(App& app, TrainFlags& flags) {
  TrainPruneFlags& f = flags.prune;
  app.add_option(
         "--prune-to", f.to,
         "remove channels while training until so much of the model's is left: " + goal_help())
      .type_name("GOAL")
      .check(parsed_by([](const std::string& text) { parse_goal(text, "--prune-to"); }));
  app.add_option("--prune-start", f.start,
                 "updates before the first are removed (default: a tenth of all)")
      .check(whole_number(0));
  app.add_option("--prune-end", f.end, "and before the last (default: half of all)")
      .check(whole_number(0));
  app.add_option("--prune-every", f.every,
                 "and from one pruning to the next (default: a twentieth of all)")
      .check(whole_number(1));
  app.add_option("--prune-criterion", f.criterion,
                 fmt::format("which go first: {}", fmt::join(shrink::criterion_names(), ", ")))
      .shows_default()
      .type_name("NAME")
      .check(one_of(shrink::criterion_names()));
  app.add_option("--prune-multiple", f.multiple,
                 "channels that a layer keeps are a multiple of this")
      .shows_default()
      .check(whole_number(1));
  app.add_option("--prune-exclude", f.exclude,
                 "leave a module, layer1 say, as wide as it is; may be repeated")
      .type_name("MODULE")
      .check(file_name());
  app.add_option(
         "--scale-penalty", flags.scale_penalty,
         "add this times the magnitudes of all batch norms' scales to the loss, which makes "
         "small those that the criterion batch_norm removes: 1e-4, say")
      .check(number({.most = 1e30}));
}

void check_pruning_flags(TrainFlags& flags, const TrainData& data) {
  TrainPruneFlags& f = flags.prune;
  if (f.to.empty()) {
    expect<ValueError>(f.start < 0 && f.end < 0 && f.every == 0 && f.exclude.empty(), "flags",
                       "--prune-start, --prune-end, --prune-every and --prune-exclude need "
                       "--prune-to");
    return;
  }
  parse_goal(f.to, "--prune-to");
  shrink::criterion_of(f.criterion);
  const int64_t steps = data.steps(flags);
  if (f.start < 0) f.start = f.end >= 0 ? std::min(f.end, steps / 10) : steps / 10;
  if (f.end < 0) f.end = std::max(f.start, steps / 2);
  if (f.every == 0) f.every = std::max<int64_t>(steps / 20, 1);
  expect<ValueError>(f.end >= f.start, "flags", "--prune-end {} is before --prune-start {}", f.end,
                     f.start);
  expect<ValueError>(f.end < steps, "flags", "--prune-end {} is not before the last of {} updates",
                     f.end, steps);
  expect<ValueError>(!flags.fused_update, "flags",
                     "--prune-to with --fused-update: its step has no moment to look at gradients "
                     "in; leave one of them out");
}

void take_resumed_sizes(TrainFlags& flags, const TrainData& data) {
  if (flags.prune.to.empty() || !flags.resume || flags.checkpoint.empty()) return;
  const NewestCheckpoint newest = newest_checkpoint_in(flags.checkpoint);
  if (!newest.checkpoint) return;
  flags.sizes = sizes_in(io::SafetensorsFile(newest.checkpoint->path), flags, data);
  if (flags.batch > 0) return;
  // The largest that fits by now would be another.
  if (flags.effective_batch == 0)
    flags.effective_batch = number_in(newest.checkpoint->identity, "effective batch");
  flags.batch = number_in(newest.checkpoint->notes, "micro-batch");
}

std::optional<PruningOptions> pruning_options(const TrainFlags& flags, const TrainData& data) {
  const TrainPruneFlags& f = flags.prune;
  if (f.to.empty()) return {};
  const PruneGoal goal = parse_goal(f.to, "--prune-to");
  PruningOptions options{
      .schedule = {.target = goal.left(), .begin = f.start, .end = f.end, .every = f.every},
      .channels = {.criterion = shrink::criterion_of(f.criterion),
                   .multiple = f.multiple,
                   .exclude = f.exclude,
                   .seed = flags.seed},
      .cost = cost_of(goal, flags, data, f.exclude),
      .batch_may_grow = flags.finds_batch()};
  nn::ModelOptions first = model_options(flags, data, Device::meta());
  first.sizes = flags.init_sizes;
  const std::unique_ptr<nn::Module> model = nn::make_model(flags.model, first);
  options.before = options.cost(*model);
  options.channels.first_shapes = nn::tensor_shapes(*model);
  return options;
}

std::string pruning_identity(const TrainFlags& flags) {
  const TrainPruneFlags& f = flags.prune;
  if (f.to.empty()) return "";
  return fmt::format("to {} by {} in multiples of {}, from {} to {} every {}, without {}", f.to,
                     f.criterion, f.multiple, f.start, f.end, f.every, fmt::join(f.exclude, " "));
}

}  // namespace brim::apps
