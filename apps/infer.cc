// Runs a trained model: on an array of images, which gives an array of logits, or on pictures,
// which gives the five likeliest classes. `infer --help` shows the flags.
#include <fmt/ranges.h>

#include <iostream>

#include "brim/autograd/in_place.h"
#include "brim/base/parallel.h"
#include "brim/core/non_finite.h"
#include "brim/apps/support/algorithm_flags.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/classify.h"
#include "brim/apps/support/device_flag.h"
#include "brim/apps/support/events.h"
#include "brim/apps/support/exif_flag.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/output.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/program.h"
#include "brim/apps/support/train_weights.h"
#include "brim/io/atomic_file.h"
#include "brim/io/npy.h"
#include "brim/nn/fold.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/slice.h"
#include "brim/ops/tf32.h"
#include "brim/train/engine_file.h"

namespace {

using namespace brim;
using namespace brim::apps;

constexpr int64_t kBatch = 32;
constexpr const char* kExamples = R"(Examples:
  infer --weights pets.safetensors --image a.jpg b.png     a file that train --save wrote
  infer --weights resnet50.safetensors --model resnet50 --image a.jpg    a file of PyTorch
  infer --weights pets.safetensors --input x.npy --output y.npy   [N,H,W,3] to logits [N,classes]
)";

struct InferFlags {
  std::string weights, model, input, output, json, device = "cpu";
  std::vector<std::string> images;
  int size = 0, threads = 0;
  int64_t classes = 0, batch = 0;  // 0 where they are not given
  uint64_t seed = 0;
  bool quiet = false, tf32 = false, keeps_norms = false;
  std::optional<bool> exif;  // none: what the file says
};

void add_flags(App& app, InferFlags& f) {
  app.footer(kExamples);
  app.add_option("--weights", f.weights, "safetensors file, of train --save or of PyTorch")
      .required()
      .type_name("FILE")
      .check(file_name());
  app.add_option("--model", f.model,
                 fmt::format("which model it is, where the file does not say: {}",
                             fmt::join(nn::model_names(), ", ")))
      .type_name("NAME")
      .check(model_name());
  app.add_option("--image", f.images, "JPEG or PNG files to classify")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--input", f.input, "npy file of images [N,H,W,3], normalised already")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--output", f.output, "npy file to write their logits to")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--size", f.size,
                 "height and width in pixels that --image is brought to (default: the file's, else "
                 "224), and that --input has")
      .check(whole_number(1, nn::ModelCard::kLargestSide));
  add_exif_flag(app, f.exif, "what the file says, else turn them");
  app.add_option("--classes", f.classes, "refuse a file whose model has another number of outputs")
      .check(whole_number(1, kMostClasses));
  app.add_option(
         "--batch", f.batch,
         fmt::format("images of --input at once (default {}); those of --image are taken one "
                     "by one",
                     kBatch))
      .check(whole_number(1, kMostImages));
  app.add_flag("--no-fold", f.keeps_norms,
               "batch norms as they are, instead of folded into the convolutions before them, "
               "which is faster and the same up to rounding");
  app.add_option("--device", f.device, "cpu, cuda or cuda:N")
      .shows_default()
      .type_name("NAME")
      .check(parsed_by(check_device_name));
  add_tf32_flag(app, f.tf32);
  app.add_option("--threads", f.threads, "threads of the kernels (default: all cores)")
      .check(thread_count());
  app.add_option("--seed", f.seed, "changes nothing: nothing here is random").check(seed_number());
  app.add_option("--json", f.json, "write results to this file, - for standard output")
      .type_name("FILE")
      .check(file_name());
  app.add_flag("--quiet", f.quiet, "print errors only");
}

void check_flags(const InferFlags& f) {
  check_tf32(f.tf32, device_for(f.device, "infer"), f.device);
  expect<ValueError>(f.images.empty() == !f.input.empty(), "flags",
                     "expected either --image or --input");
  expect<ValueError>(f.input.empty() == f.output.empty(), "flags",
                     "expected --input and --output together");
  if (!f.output.empty()) io::check_writable(f.output, "output");
}

/// What a person is told of them; "" where all are finite.
std::string non_finite_images(const Tensor& x) {
  int64_t count = 0, first = 0;
  for (int64_t i = x.size(0); i-- > 0;)
    if (has_non_finite(slice(x, 0, {.begin = i, .end = i + 1}))) {
      ++count;
      first = i;
    }
  if (count == 0) return "";
  return fmt::format("{} of {} images have values that are not finite, first image {} (from 0)",
                     count, x.size(0), first);
}

void infer_array(const InferFlags& f, nn::LoadedModel& model, bool talk, Events& events) {
  Tensor x = io::read_npy(f.input);
  const bool has_size = x.dim() == 4 && x.size(1) == f.size && x.size(2) == f.size;
  expect<ValueError>(f.size == 0 || has_size, "flags",
                     "--size {0} wants [N,{0},{0},3], but '{1}' is {2}", f.size, f.input,
                     x.shape());
  int64_t batch = f.batch > 0 ? f.batch : kBatch;
  Tensor logits = logits_of(*model.module, x, model.classes, batch, f.input);
  if (const std::string warning = non_finite_images(x); !warning.empty())
    std::cerr << shown(fmt::format("infer: warning: '{}': {}\n", f.input, warning));
  io::write_npy(f.output, logits);
  events.write(
      {{"input", f.input}, {"output", f.output}, {"shape", {logits.size(0), logits.size(1)}}});
  if (talk)
    std::cout << fmt::format("{}: logits {} of {}\n", shown(f.output), to_string(logits.shape()),
                             model.card.model);
}

void infer_image(const std::string& path, const std::vector<Guess>& guesses, bool talk,
                 Events& events) {
  Json top = Json::array();
  for (const Guess& guess : guesses)
    top.push_back(
        {{"index", guess.index}, {"name", guess.name}, {"probability", guess.probability}});
  events.write({{"image", path}, {"top", top}});
  if (!talk) return;
  std::cout << shown(path) << '\n';
  for (const Guess& guess : guesses)
    std::cout << fmt::format("{:7.2f}%  {}\n", 100 * guess.probability, guess.name);
}

/// A file that cannot be read does not keep the others from their answers.
void infer_images(const InferFlags& f, nn::LoadedModel& model, const Preparation& preparation,
                  bool talk, Events& events) {
  size_t failed = 0;
  for (const std::string& path : f.images) {
    try {
      infer_image(path, classify(model, preparation, path), talk, events);
    } catch (const FileError& error) {
      if (f.images.size() == 1) throw;
      ++failed;
      std::cerr << "infer: " << shown(error.what()) << '\n';
      events.write({{"image", path}, {"error", error.what()}});
    }
  }
  events.open();  // what is answered stays so, whatever the others are
  if (failed > 0) raise<FileError>("image", "{} of {} cannot be read", failed, f.images.size());
}

void infer(const InferFlags& f) {
  check_flags(f);
  Events events(f.json);
  bool talk = !f.quiet && !events.owns_stdout();
  if (f.threads > 0) set_num_threads(f.threads);
  const Device device = device_for(f.device, "infer");
  set_allow_tf32(f.tf32);
  take_up_engines(device);
  nn::LoadedModel model = nn::load_model(f.weights, {.model = f.model, .device = device});
  expect<ValueError>(f.classes == 0 || f.classes == model.classes, "flags",
                     "--classes {}, but the model in '{}' has {}", f.classes, f.weights,
                     model.classes);
  if (talk && !model.prefix.empty())
    std::cout << shown(said_of_prefix(f.weights, model.prefix)) << std::endl;
  Preparation preparation = preparation_of(model.card, f.size);
  preparation.exif = f.exif.value_or(preparation.exif);
  if (!f.quiet)
    preparation.note = [](const std::string& fault) {
      std::cerr << "infer: " << shown(fault) << '\n';
    };
  if (!f.keeps_norms)
    nn::fold_batch_norms(*model.module, {1, preparation.size, preparation.size, 3});
  const autograd::InPlaceScope in_place(true);
  if (!f.input.empty()) infer_array(f, model, talk, events);
  infer_images(f, model, preparation, talk, events);
  keep_engines(device);
}

}  // namespace

int main(int argc, char** argv) {
  App app("Runs a model from a file of weights.", "infer");
  InferFlags flags;
  add_flags(app, flags);
  return run_program(app, argc, argv, [&] { infer(flags); });
}
