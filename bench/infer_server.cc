// Inference on demand, for compare.py; see server.h for the protocol. A step is one forward pass,
// the same problem as peers/torch_infer.py: random normalised images, batch norms folded. With
// --profile N it prints where the time of N passes goes, and ends.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "brim/autograd/in_place.h"
#include "brim/base/parallel.h"
#include "brim/bench/server.h"
#include "brim/bench/timing.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"
#include "brim/memory/account.h"
#include "brim/nn/fold.h"
#include "brim/nn/models/registry.h"
#include "brim/train/profile_report.h"

namespace {

using namespace brim;
using namespace brim::bench;

struct Options {
  std::string model = "resnet50", dtype = "f32";
  int64_t batch = 1, size = 224, classes = 1000;
  int threads = 0, warm_up = 3, profile = 0;
  bool keeps_norms = false;
};

void add_flags(apps::App& app, Options& options) {
  app.add_option("--model", options.model).shows_default();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--size", options.size).shows_default();
  app.add_option("--classes", options.classes).shows_default();
  app.add_option("--threads", options.threads, "of the kernels; 0: all cores");
  app.add_option("--dtype", options.dtype, "f32 alone")
      .check(apps::one_of({"f32"}))
      .shows_default();
  app.add_option("--warmup", options.warm_up, "passes");
  app.add_option("--profile", options.profile, "print where the time of so many passes goes");
  app.add_flag("--no-fold", options.keeps_norms, "batch norms as they are");
}

class Inference {
 public:
  explicit Inference(const Options& options)
      : peak_(measured_peak()),
        model_(nn::make_model(options.model, {.classes = options.classes, .seed = 0})),
        images_(normal({options.batch, options.size, options.size, 3}, 1, RandomKey{1})) {
    model_->eval();
    bound_ = bound_without_norms();
    if (!options.keeps_norms) nn::fold_batch_norms(*model_, images_.shape());
  }

  void pass() const { (*model_)(images_); }
  double bound() const { return bound_; }

  ProfileReport profiled(int passes) const {
    Profile profile({.warm_up = 0, .updates = passes});
    for (int i = 0; i < passes; ++i) {
      Profile::Scope scope(&profile, i);
      pass();
      scope.keep();
    }
    return profile_report(profile, peak_);
  }

 private:
  /// Of the model as it is before folding, whose kernels get each weight once.
  double bound_without_norms() const {
    double seconds = 0;
    for (const OpCost& op : profiled(1).ops)
      if (op.op != "batch_norm") seconds += op.cost.least_seconds;
    return seconds;
  }

  MachinePeak peak_;
  std::unique_ptr<nn::Module> model_;
  Tensor images_;
  double bound_ = 0;
  autograd::NoGradScope no_grad_;
  autograd::InPlaceScope in_place_{true};
};

void serve_passes(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const Inference inference(options);
  if (options.profile == 0)
    return serve({.step = [&] { return seconds_of([&] { inference.pass(); }); },
                  .peak = [] { return memory::account(Device::cpu())->stats().peak_live; },
                  .bound = [&] { return inference.bound(); }},
                 options.warm_up);
  for (int i = 0; i < options.warm_up; ++i) inference.pass();
  const ProfileReport report = inference.profiled(options.profile);
  fmt::print("{}\n{}", fmt::join(summary_of(report), "\n"), table_of(report));
}

}  // namespace

int main(int argc, char** argv) {
  apps::App app("Times forward passes on demand, for compare.py.", "infer_server");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { serve_passes(options); });
}
