// Runs inference on demand, so that a driver can alternate it with other programs: prints `ready`
// when warm, then answers each line `step N` with one line of N space-separated seconds, of one
// forward pass each, `peak` with the bytes that were live at the most, and `bound` with the seconds
// that a pass takes at this machine's peak (train/machine_peak.h). The same problem as
// peers/torch_infer.py: random normalised images, batch norms folded. With --profile N it prints
// where the time of N passes goes, and ends.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <string>

#include "brim/autograd/in_place.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/memory/account.h"
#include "brim/nn/fold.h"
#include "brim/nn/models/registry.h"
#include "brim/train/profile_report.h"

namespace {

using namespace brim;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model = "resnet50", dtype = "f32";
  int64_t batch = 1, size = 224, classes = 1000;
  int threads = 0, warm_up = 3, profile = 0;
  bool keeps_norms = false;
};

void add_flags(CLI::App& app, Options& options) {
  app.add_option("--model", options.model)->capture_default_str();
  app.add_option("--batch", options.batch)->capture_default_str();
  app.add_option("--size", options.size)->capture_default_str();
  app.add_option("--classes", options.classes)->capture_default_str();
  app.add_option("--threads", options.threads, "of the kernels; 0: all cores");
  app.add_option("--dtype", options.dtype)->check(CLI::IsMember({"f32"}))->capture_default_str();
  app.add_option("--warmup", options.warm_up);
  app.add_option("--profile", options.profile, "print the slowest kernels of so many passes");
  app.add_flag("--no-fold", options.keeps_norms, "batch norms as they are");
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Inference {
 public:
  explicit Inference(const Options& options)
      : model_(nn::make_model(options.model, {.classes = options.classes, .seed = 0})),
        images_(normal({options.batch, options.size, options.size, 3}, 1, RandomKey{1})) {
    model_->eval();
    bound_ = bound_without_norms();
    if (!options.keeps_norms) nn::fold_batch_norms(*model_, images_.shape());
  }

  double timed_pass() const {
    const auto start = Clock::now();
    (*model_)(images_);
    return seconds_since(start);
  }

  double bound() const { return bound_; }

 private:
  /// Of the model as it is before folding, whose kernels get each weight once.
  double bound_without_norms() const {
    const MachinePeak peak = measured_peak();
    Profile profile({.warm_up = 0, .updates = 1});
    Profile::Scope scope(&profile, 0);
    (*model_)(images_);
    scope.keep();
    double seconds = 0;
    for (const OpCost& op : profile_report(profile, peak).ops)
      if (op.op != "batch_norm") seconds += op.cost.least_seconds;
    return seconds;
  }

  std::unique_ptr<nn::Module> model_;
  Tensor images_;
  double bound_ = 0;
  autograd::NoGradScope no_grad_;
  autograd::InPlaceScope in_place_{true};
};

/// Seconds of kernels by their name and shapes.
class KernelTimes final : public LaunchObserver {
 public:
  void launched(const LaunchEvent& event) override {
    name_ = event.kernel;
    for (const View& in : event.in)
      if (in.present) name_ += ' ' + to_string(in.shape);
    start_ = Clock::now();
  }
  void finished() override {
    Entry& entry = entries_[name_];
    entry.seconds += seconds_since(start_);
    ++entry.count;
  }

  void print(int passes) const {
    std::vector<std::pair<std::string, Entry>> sorted(entries_.begin(), entries_.end());
    std::ranges::sort(sorted, std::greater(), [](const auto& e) { return e.second.seconds; });
    double sum = 0;
    for (const auto& [name, entry] : sorted) {
      fmt::print("{:9.3f} ms {:5}  {}\n", entry.seconds * 1e3 / passes, entry.count / passes, name);
      sum += entry.seconds;
    }
    fmt::print("{:9.3f} ms in all\n", sum * 1e3 / passes);
  }

 private:
  struct Entry {
    double seconds = 0;
    int count = 0;
  };
  std::map<std::string, Entry> entries_;
  std::string name_;
  Clock::time_point start_;
};

void serve(const Inference& inference) {
  std::cout << "ready" << std::endl;
  std::string command;
  for (int count = 0; std::cin >> command;) {
    if (command == "peak") {
      std::cout << memory::account(Device::cpu())->stats().peak_live << std::endl;
      continue;
    }
    if (command == "bound") {
      std::cout << inference.bound() << std::endl;
      continue;
    }
    std::cin >> count;
    for (int i = 0; i < count; ++i) std::cout << (i > 0 ? " " : "") << inference.timed_pass();
    std::cout << std::endl;
  }
}

void run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const Inference inference(options);
  for (int i = 0; i < options.warm_up; ++i) inference.timed_pass();
  if (options.profile == 0) return serve(inference);
  KernelTimes times;
  LaunchObserverScope scope(times);
  for (int i = 0; i < options.profile; ++i) inference.timed_pass();
  times.print(options.profile);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times forward passes on demand, for compare_step.py.");
  Options options;
  add_flags(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "infer_server: " << error.what() << std::endl;
    return 1;
  }
}
