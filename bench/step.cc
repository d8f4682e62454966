// Where the time of a training step goes, and how far that is from what this machine could do: for
// each op, each module and each op of a module the seconds that it took beside the longer of its
// arithmetic at the measured peak and its traffic at the measured bandwidth, those with the most
// excess first. As text, and with --html as a page. The training is that of step_server: random
// images, SGD with momentum; `train --profile` does the same for a model and data of your own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "brim/base/parallel.h"
#include "brim/bench/step_training.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"
#include "brim/io/atomic_file.h"
#include "brim/train/profile_report.h"

namespace {

using namespace brim;
using namespace brim::bench;

struct Options {
  StepOptions step;
  std::string html;
  int updates = 7;
  size_t most = 15;
};

void add_flags(apps::App& app, Options& options) {
  add_flags(app, options.step);
  app.add_option("--updates", options.updates, "steps that are timed, after two")
      .shows_default()
      .check(apps::whole_number(1));
  app.add_option("--most", options.most, "rows of each table").shows_default();
  app.add_option("--html", options.html, "write a page with all rows to this file");
}

void run(const Options& options) {
  const StepOptions& step = options.step;
  check_flags(step);
  set_threads(step);
  const MachinePeak peak = measured_peak();
  StepTraining training(step);
  Profile profile({.warm_up = 2, .updates = options.updates});
  for (int i = 0; !profile.is_done(); ++i) {
    Profile::Scope scope(&profile, i);
    training.update();
    scope.keep();
  }
  const ProfileReport report = profile_report(profile, peak);
  const std::string about =
      fmt::format("{}, {}x{}, batch {}, {}, {} threads", step.model, step.size, step.size,
                  step.batch, step.dtype, num_threads());
  fmt::print("{}\n  {}\n{}", about, fmt::join(summary_of(report), "\n  "),
             table_of(report, options.most));
  if (!options.html.empty()) io::write_file(options.html, profile_page(report, {about}), "step");
}

}  // namespace

int main(int argc, char** argv) {
  apps::App app("Times of a training step by op and module, beside this machine's roofline.",
                    "step");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { run(options); });
}
