// What free recomputation costs and what it spares: training steps that keep everything and steps
// that keep nothing that one pass makes again, in turns in one process, over the same images.
// Seconds are medians, with the ratio of the medians and the least and greatest ratio of one round;
// bytes are the peaks of what is reserved under the caching planner.
//
//   free_recompute_bench --models resnet50 mobilenet_v2 --batch 16 --rounds 15
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "brim/base/parallel.h"
#include "brim/bench/timing.h"
#include "brim/brim.h"

namespace {

using namespace brim;
using bench::median;

struct Options {
  std::vector<std::string> models{"resnet50", "mobilenet_v2"};
  int64_t batch = 16, size = 224;
  int threads = 0, warmup = 2, rounds = 9;
};

/// A model and its training, in an account of its own.
class Training {
 public:
  Training(const std::string& model, const Options& options, const RecomputeOptions& recompute)
      : account_(memory::capped_host_account("caching")),
        scope_(std::make_unique<memory::AccountScope>(account_)),
        model_(nn::make_model(model, {.classes = 1000, .seed = 0})),
        sgd_(model_->named_parameters(), {.momentum = 0.9, .weight_decay = 1e-4}),
        step_(*model_, sgd_, {.recompute = recompute}),
        images_(normal({options.batch, options.size, options.size, 3}, 1, RandomKey{1})),
        labels_(zeros({options.batch}, {.dtype = Dtype::int64})) {
    scope_.reset();
  }

  double seconds_of_step() {
    memory::AccountScope scope(account_);
    return bench::seconds_of(
        [&] { step_.run(0.01, [&] { return cross_entropy((*model_)(images_), labels_); }); });
  }
  double peak_mib() const {
    return static_cast<double>(account_->stats().peak_reserved) / (1024.0 * 1024.0);
  }

 private:
  std::shared_ptr<memory::Account> account_;
  std::unique_ptr<memory::AccountScope> scope_;  // while the rest is made
  std::shared_ptr<nn::Module> model_;
  optim::Sgd sgd_;
  TrainStep step_;
  Tensor images_, labels_;
};

void compare(const std::string& model, const Options& options) {
  Training off(model, options, {}), free(model, options, free_recomputation());
  for (int i = 0; i < options.warmup; ++i) off.seconds_of_step(), free.seconds_of_step();
  std::vector<double> of_off, of_free, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    // The order turns, so that a slow moment of the machine hits both.
    if (round % 2 == 0) of_off.push_back(off.seconds_of_step());
    of_free.push_back(free.seconds_of_step());
    if (round % 2 == 1) of_off.push_back(off.seconds_of_step());
    ratios.push_back(of_free.back() / of_off.back());
  }
  const bench::Spread ratio = bench::spread_of(ratios);
  fmt::print("{:<16}{:>10.1f} ms{:>10.1f} ms{:>9.3f} ({:.3f} to {:.3f}){:>10.0f} MiB{:>8.0f} MiB\n",
             model, median(of_off) * 1e3, median(of_free) * 1e3, median(of_free) / median(of_off),
             ratio.least, ratio.most, off.peak_mib(), free.peak_mib());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times steps with free recomputation and without, in turns.",
               "free_recompute_bench");
  Options options;
  app.add_option("--models", options.models)->capture_default_str();
  app.add_option("--batch", options.batch)->capture_default_str();
  app.add_option("--size", options.size)->capture_default_str();
  app.add_option("--threads", options.threads);
  app.add_option("--warmup", options.warmup)->capture_default_str();
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (options.threads > 0) set_num_threads(options.threads);
  fmt::print("{:<16}{:>13}{:>13}{:>27}{:>14}{:>12}\n", "model", "off", "free", "ratio (rounds)",
             "peak, off", "free");
  for (const std::string& model : options.models) compare(model, options);
}
