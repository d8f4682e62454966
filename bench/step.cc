// Where the time of a training step goes, and how far that is from what this machine could do: for
// each op, each module and each op of a module the seconds that it took beside the longer of its
// arithmetic at the measured peak and its traffic at the measured bandwidth, those with the most
// excess first. As text, and with --html as a page. The training is that of step_server: random
// images, SGD with momentum; `train --profile` does the same for a model and data of your own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "brim/base/parallel.h"
#include "brim/bench/step_training.h"
#include "brim/io/atomic_file.h"
#include "brim/train/profile_report.h"

int main(int argc, char** argv) {
  using namespace brim;
  CLI::App app("Times of a training step by op and module, beside this machine's roofline.");
  bench::StepOptions options;
  bench::add_flags(app, options);
  std::string html;
  int updates = 7;
  size_t most = 15;
  app.add_option("--updates", updates, "steps that are timed, after two")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--most", most, "rows of each table")->capture_default_str();
  app.add_option("--html", html, "write a page with all rows to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    bench::set_threads(options);
    const MachinePeak peak = measured_peak();
    bench::StepTraining training(options);
    Profile profile({.warm_up = 2, .updates = updates});
    for (int i = 0; !profile.is_done(); ++i) {
      Profile::Scope scope(&profile, i);
      training.update();
      scope.keep();
    }
    const ProfileReport report = profile_report(profile, peak);
    const std::string about =
        fmt::format("{}, {}x{}, batch {}, {}, {} threads", options.model, options.size,
                    options.size, options.batch, options.dtype, num_threads());
    fmt::print("{}\n  {}\n{}", about, fmt::join(summary_of(report), "\n  "),
               table_of(report, most));
    if (!html.empty()) io::write_file(html, profile_page(report, {about}), "step");
  } catch (const std::exception& error) {
    std::cerr << "step: " << error.what() << std::endl;
    return 1;
  }
}
