#include "brim/apps/support/train_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "brim/base/bytes.h"
#include "brim/apps/support/algorithm_flags.h"
#include "brim/apps/support/dtype_flag.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/op_times_flag.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/run_profile.h"
#include "brim/apps/support/run_watch.h"
#include "brim/apps/support/train_checkpoints.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_precision.h"
#include "brim/apps/support/train_pruning.h"
#include "brim/apps/support/train_trace.h"
#include "brim/apps/support/train_weights.h"
#include "brim/io/atomic_file.h"
#include "brim/nn/creation.h"
#include "brim/train/parts.h"

namespace brim::apps {
namespace {

constexpr const char* kExamples = R"(Examples:
  train                                        ten drawn shapes, about a minute
  train --data photos --model mobilenet_v2     photos/train/<class>/*.jpg, photos/val/<class>/*.jpg
  train --data cifar-10-batches-bin --epochs 10   CIFAR-10, ResNet-20
  train --data synthetic --model resnet50 --batch 16 --steps 10   time a bare step
  train --data photos --model resnet50 --budget 2GiB   refused at once where that is too little
  train --data photos --model resnet50 --budget 2GiB --batch auto   the largest batch that fits
  train --data photos --budget 2GiB --batch auto --effective-batch 256   in micro-batches that fit
  train --data photos --epochs 90 --checkpoint runs/1 --resume   goes on where it was stopped
  train --data photos --model mobilenet_v2 --optimizer adamw --no-decay norm,bias --ema 0.999
  train --data photos --model resnet18 --init r18.safetensors --new-head --save mine.safetensors
)";

bool is_found(const std::string& batch) { return batch == kAutoBatch || batch == kFastestBatch; }

/// What is wrong with the text, or nothing.
std::string check_batch(const std::string& text) {
  if (is_found(text) || is_whole_number(text, 1, kMostImages)) return {};
  return fmt::format("expected a number of images from 1 to {}, auto or fastest, got '{}'",
                     kMostImages, text);
}

/// Of "segments=N"; 0 for another text.
int64_t parse_segments(std::string_view text) {
  constexpr std::string_view kName = "segments=";
  if (!text.starts_with(kName)) return 0;
  const std::string count(text.substr(kName.size()));
  return is_whole_number(count, 1, kMostCount) ? std::stoll(count) : 0;
}

std::string check_recompute(const std::string& text) {
  if (text == "off" || text == "free" || text == "auto" || parse_segments(text) > 0) return {};
  return fmt::format("expected off, free, auto or segments=N, N from 1 to {}, got '{}'", kMostCount,
                     text);
}

/// "5" or "5%".
double parse_percent(std::string text) {
  const std::string given = text;
  if (text.ends_with('%')) text.pop_back();
  double percent = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  expect<ValueError>(
      error == std::errc{} && end == text.data() + text.size() && percent >= 0 && percent < 100,
      "margin", "expected from 0 to below 100 percent, got '{}'", given);
  return percent;
}

void add_training_flags(App& app, TrainFlags& f) {
  app.add_option("--epochs", f.epochs, "passes over the data (default 10; shapes 3)")
      .check(whole_number(1));
  app.add_option("--steps", f.steps, "updates instead of epochs (default for synthetic: 10)")
      .check(whole_number(1));
  app.add_option("--schedule", f.schedule, "constant, cosine, onecycle or step")
      .shows_default()
      .type_name("NAME")
      .check(one_of({"constant", "cosine", "onecycle", "step"}));
  app.add_option("--warmup", f.warmup, "steps of linear warm-up before the schedule")
      .check(whole_number(0));
  add_loss_scale_flag(app, f);
  app.add_option("--early-stop", f.early_stop,
                 "end when the accuracy was not better for so many epochs")
      .check(whole_number(1));
}

void add_data_flags(App& app, TrainFlags& f) {
  app.add_option("--data", f.data,
                 "shapes, synthetic, or a folder: of train/<class>/* and val/<class>/*, of CIFAR's "
                 "binary files, or of MNIST's")
      .shows_default()
      .type_name("DATA")
      .check(file_name());
  app.add_option("--model", f.model, fmt::format("{}", fmt::join(nn::model_names(), ", ")))
      .shows_default()
      .type_name("NAME")
      .check(model_name());
  app.add_option(
         "--size", f.size,
         "height and width of the input in pixels (default: that of CIFAR and MNIST, else the "
         "model's; for shapes a smaller one, also the model's)")
      .check(whole_number(1, nn::ModelCard::kLargestSide));
  app.add_option("--classes", f.classes, "outputs of the model (default: the data's)")
      .check(whole_number(1, kMostClasses));
  app.add_option("--label-smoothing", f.label_smoothing,
                 "share of the target spread over all classes")
      .shows_default()
      .check(number({.most = 1, .below_most = true}));
  app.add_option("--seed", f.seed, "of initial values, order and augmentation")
      .shows_default()
      .check(seed_number());
}

void add_batch_flags(App& app, TrainFlags& f) {
  app.add_option(
         "--batch", f.batch_text,
         "images on the device at once; auto: the most that fit the budget; fastest: the fewest "
         "that are nearly as fast as any, timed now (default 64 up to 64 pixels, beyond and for "
         "shapes 32)")
      .type_name("N")
      .check({check_batch});
  app.add_option("--effective-batch", f.effective_batch,
                 "images of an update, in micro-batches of --batch, the last one smaller")
      .check(whole_number(1, kMostImages));
  app.add_option("--micro-batches", f.micro_batches,
                 "parts of an update, in place of either --batch or --effective-batch")
      .check(whole_number(1, kMostImages));
  app.add_option("--max-batch", f.max_batch,
                 "the largest that auto and fastest may take (default: all images)")
      .check(whole_number(1, kMostImages));
  app.add_option("--batch-multiple", f.batch_multiple, "auto and fastest take a multiple of this")
      .shows_default()
      .check(whole_number(1, kMostImages));
}

void add_budget_flags(App& app, TrainFlags& f) {
  app.add_option("--device", f.device_name, "cpu, cuda or cuda:N")
      .shows_default()
      .type_name("NAME")
      .check(parsed_by(check_device_name));
  app.add_option("--threads", f.threads, "threads of the kernels (default: all cores)")
      .check(thread_count());
  app.add_option("--budget", f.budget_text, "device bytes never to be exceeded: 300MiB, 1.5GB")
      .type_name("SIZE")
      .check(byte_size(1));
  app.add_option("--margin", f.margin_text,
                 "percent of the budget, or of the machine, that is left free for others (default: "
                 "0, of a GPU without a budget 1, for what its libraries load later)")
      .type_name("PERCENT")
      .check(parsed_by([](const std::string& text) { parse_percent(text); }));
  app.add_option("--planner", f.planner, "arena, caching or direct")
      .shows_default()
      .type_name("NAME")
      .check(one_of({"arena", "caching", "direct"}));
}

void add_saving_flags(App& app, TrainFlags& f) {
  app.add_flag(
      "--fused-update", f.fused_update,
      "update parameters during backward: fewer gradients at once, the same numbers, but a "
      "step that fails cannot be undone");
  app.add_flag(
      "--replay,--cuda-graph", f.replay,
      "record updates once and start them again, on a GPU as a CUDA graph, under the arena "
      "planner: the same numbers with less work for the host, which counts where batches "
      "are small; what cannot be recorded runs as it is");
  app.add_flag("--in-place,!--no-in-place", f.in_place,
               "elementwise ops write over what nobody reads any more: the same numbers (default)");
  app.add_option(
         "--recompute", f.recompute_text,
         "saved tensors to drop and make again, the same numbers: off; free, results of "
         "elementwise ops and batch norm, which cost next to nothing; auto, free where that fits, "
         "else what the budget asks, at the least predicted time; segments=N (default auto with "
         "--budget, unless --batch is to be found; else free)")
      .type_name("HOW")
      .check({check_recompute});
  app.add_option(
         "--offload", f.offload_text,
         "auto: where the run does not fit otherwise, saved tensors wait in host memory; beside "
         "what is dropped where --recompute is auto, and of each what is predicted to be faster "
         "at a nominal 12 GB/s each way, whatever the machine; else alone. off (default on cpu: "
         "there they stay in the same memory, beyond the budget)")
      .type_name("HOW")
      .check(one_of({"off", "auto"}));
  add_precision_flags(app, f);
  add_tf32_flag(app, f.tf32);
  add_benchmark_flag(app, f);
  add_op_times_flag(app, f);
}

}  // namespace

void add_model_flags(App& app, TrainFlags& f) {
  app.take_last();
  add_data_flags(app, f);
  add_batch_flags(app, f);
  add_budget_flags(app, f);
  add_saving_flags(app, f);
  add_optimizer_flags(app, f.optimizer);
  app.add_flag("--quiet", f.quiet, "print errors only");
}

void add_flags(App& app, TrainFlags& f) {
  app.footer(kExamples);
  add_model_flags(app, f);
  add_training_flags(app, f);
  add_augment_flags(app, f.augment);
  add_weight_flags(app, f);
  add_checkpoint_flags(app, f);
  add_reading_flags(app, f);
  app.add_option("--save-plan", f.save_plan, "keep the arena planner's plan in this file")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--plan", f.plan, "take a kept plan, if it is of the same run, and do not plan")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--trace", f.trace,
                 "draw what the first updates did: .html for a browser, .json for Perfetto")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--profile", f.profile,
                 "time every launch of a few updates: .html, by module and by op")
      .type_name("FILE.html")
      .check(file_name());
  add_watch_flags(app, f);
  add_pruning_flags(app, f);
  app.add_option("--json", f.json, "write events to this file, - for standard output")
      .type_name("FILE")
      .check(file_name());
}

namespace {

void check_fused_update(const TrainFlags& f) {
  if (!f.fused_update) return;
  expect<ValueError>(f.precision() != Dtype::float16 || f.loss_scale == "none", "flags",
                     "--fused-update cannot skip an update that overflows: train in bf16, or give "
                     "--loss-scale none");
  expect<ValueError>(f.planner == "arena", "flags",
                     "--fused-update needs the bytes of the whole step beforehand: use the arena "
                     "planner, not {}",
                     f.planner);
  expect<ValueError>(f.optimizer.clip.norm == optim::ClipOptions::kNone, "flags",
                     "--fused-update cannot clip by the norm of all gradients (--clip-norm)");
  expect<ValueError>(f.effective_batch <= f.batch, "flags",
                     "--fused-update updates from the gradients of one micro-batch, and an update "
                     "of {} images in batches of {} has several, or may have",
                     f.effective_batch, f.batch > 0 ? std::to_string(f.batch) : f.batch_text);
}

void check_graph(const TrainFlags& f) {
  expect<ValueError>(!f.replay || f.offload_text != "auto", "flags",
                     "--offload auto copies to the host and back, which --replay cannot record: "
                     "leave one of them out");
}

void check_offload(const TrainFlags& f) {
  if (f.offload_text != "auto") return;
  expect<ValueError>(
      f.recompute_text.empty() || f.recompute_text == "auto" || f.recompute_text == "off", "flags",
      "--offload auto is planned with --recompute auto, or alone with --recompute off, not with {}",
      f.recompute_text);
  expect<ValueError>(f.batch_text != kFastestBatch, "flags",
                     "--batch fastest times steps that hold everything on the device: give "
                     "--offload off, or --batch auto");
}

// Percent of a GPU that is not planned for where no budget says how much is: for kernels that its
// libraries load when they first compute with some size.
constexpr double kGpuMargin = 1;

// Two of batch, effective batch and micro-batches say the third.
void set_batch(TrainFlags& f) {
  const bool automatic = is_found(f.batch_text);
  expect<ValueError>(!automatic || f.micro_batches == 0, "flags",
                     "--batch {} finds the number of --micro-batches by itself", f.batch_text);
  if (!f.batch_text.empty() && !automatic)
    f.batch = std::stoll(f.batch_text);
  else if (f.micro_batches > 0 && f.effective_batch > 0)
    f.batch = (f.effective_batch + f.micro_batches - 1) / f.micro_batches;
  else if (!automatic)
    f.batch = f.size <= 64 && f.data != "shapes" ? 64 : 32;
  if (f.micro_batches > 0 && f.effective_batch == 0) f.effective_batch = f.batch * f.micro_batches;
  if (f.effective_batch == 0) return;
  if (f.batch_text.empty()) f.batch = std::min(f.batch, f.effective_batch);
  expect<ValueError>(f.batch <= f.effective_batch, "flags",
                     "--batch {} is more than the --effective-batch of {}", f.batch,
                     f.effective_batch);
  int64_t parts = automatic ? 0 : count_parts(f.effective_batch, f.batch);
  expect<ValueError>(f.micro_batches == 0 || f.micro_batches == parts, "flags",
                     "--effective-batch {} in batches of {} makes {} micro-batches, not {}",
                     f.effective_batch, f.batch, parts, f.micro_batches);
}

}  // namespace

void check_flags(TrainFlags& f) {
  if (!f.budget_text.empty()) f.budget = parse_bytes(f.budget_text);
  if (!f.cache_images_text.empty()) f.cache_images = parse_bytes(f.cache_images_text);
  if (!f.margin_text.empty()) f.margin = parse_percent(f.margin_text);
  if (f.margin_text.empty() && f.budget == 0 && f.gpu) f.margin = kGpuMargin;
  check_augment_flags(f.augment, f.data);
  bool files = f.data != "shapes" && f.data != "synthetic";
  expect<ValueError>(files || !f.check_images, "flags",
                     "--check-images does nothing with --data {}: it is for files", f.data);
  if (f.size == 0 && files) f.size = data::native_size(f.data);
  const nn::TrainingRecipe& recipe = nn::training_recipe(f.model);
  if (f.size == 0) f.size = f.data == "shapes" ? recipe.drawn_size : recipe.size;
  set_batch(f);
  expect<ValueError>(f.batch == 0 || (f.max_batch == 0 && f.batch_multiple == 1), "flags",
                     "--max-batch and --batch-multiple are for --batch auto and fastest");
  if (f.data == "synthetic") {  // one epoch, of as many batches as there are steps
    if (f.steps == 0) f.steps = f.epochs > 0 ? f.epochs : 10;
    f.epochs = 1;
  }
  if (f.epochs == 0) f.epochs = f.data == "shapes" ? 3 : 10;
  if (!f.init.empty()) f.optimizer.share_of_usual = recipe.fine_tuning;
  check_optimizer_flags(f.optimizer, recipe);
  f.optimizer.seed = f.seed;
  expect<ValueError>(f.planner == "arena" || (f.plan.empty() && f.save_plan.empty()), "flags",
                     "--plan and --save-plan are for the arena planner, not for {}", f.planner);
  check_precision_flags(f);
  check_fused_update(f);
  check_graph(f);
  check_algorithm_flags(f);
  expect<ValueError>(f.recompute_text != "auto" || f.batch_text != kFastestBatch, "flags",
                     "--batch fastest times steps that keep everything or recompute for free: give "
                     "--recompute off or free, or --batch auto");
  check_offload(f);
  f.segments = parse_segments(f.recompute_text);
  if (f.recompute_text != "off" && f.segments == 0) f.recompute = free_recomputation();
  expect<ValueError>(!f.resume || f.batch_text != kFastestBatch, "flags",
                     "--batch fastest may find another batch now: with --resume give the one that "
                     "was trained with");
  expect<ValueError>(f.early_stop == 0 || f.data != "synthetic", "flags",
                     "--early-stop needs images to validate, and {} has none", f.data);
  if (!f.trace.empty()) check_trace_file(f.trace);
  check_profile_flags(f);
  if (!f.watch_page.empty()) check_watch_page(f.watch_page);
  if (!f.save_plan.empty()) io::check_writable(f.save_plan, "plan");
}

nn::ModelOptions model_options(const TrainFlags& flags, const TrainData& data, Device device) {
  const Dtype dtype =
      flags.parameters_text == "f32" ? nn::creation_options().dtype : Dtype::bfloat16;
  return {.classes = data.classes,
          .seed = flags.seed,
          .dtype = dtype,
          .device = device,
          .sizes = flags.sizes};
}

TrainerOptions trainer_options(const TrainFlags& flags, const TrainData& data) {
  // One cycle with a short rise and a straight way down: the best of short trainings, after
  // M. Li, E. Yumer, D. Ramanan, "Budgeted Training", ICLR 2020.
  const optim::ScaledRate scaled = rate_for(flags.optimizer, flags.update_images(), flags.warmup);
  optim::ScheduleOptions schedule{.rate = scaled.rate,
                                  .steps = data.steps(flags),
                                  .warmup = scaled.warmup,
                                  .rise = 0.15,
                                  .anneal = optim::Anneal::linear};
  return {.steps = schedule.steps,
          .seed = flags.seed,
          .schedule = optim::make_schedule(flags.schedule, schedule),
          .label_smoothing = flags.label_smoothing,
          .mix = flags.augment.mix,
          .input = data.input,
          .clip = flags.optimizer.clip,
          .micro_batch = flags.batch,
          .fused_update = flags.fused_update,
          .precision = flags.precision(),
          .gradients = dtype_named(flags.gradients_text),
          .in_place = flags.in_place,
          .recompute = flags.recompute,
          .offload = {.enabled = flags.offloads()},
          .graph = flags.replay,
          .scale_penalty = flags.scale_penalty,
          .checkpoint_every = flags.checkpoint_every,
          .early_stop = flags.early_stop};
}

}  // namespace brim::apps
