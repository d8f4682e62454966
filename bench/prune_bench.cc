// How long it takes to group a model's channels, score them, find what to remove for a share of the
// FLOPs and remove it: seconds of each, the medians over rounds on a model made anew.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"

namespace {

using namespace brim;

struct Options {
  std::string model = "resnet152", criterion = "l2";
  int64_t size = 224;
  double flops = 0.5;
  int rounds = 5;
};

struct Times {
  std::vector<double> group, score, find, remove, all;
};

void prune_once(const Options& o, const shrink::Criterion criterion, Times& times) {
  auto model = nn::make_model(o.model);
  const Shape input{1, o.size, o.size, 3};
  if (criterion == shrink::Criterion::taylor)
    for (const nn::NamedTensor& parameter : model->named_parameters())
      parameter.tensor.set_grad(ones(parameter.tensor.shape()));
  const auto start = bench::Clock::now();
  times.group.push_back(bench::seconds_of([&] { shrink::find_channel_groups(*model, input); }));
  std::optional<shrink::Pruner> pruner;
  const double made =
      bench::seconds_of([&] { pruner.emplace(*model, input, shrink::PruneOptions{criterion}); });
  times.score.push_back(made - times.group.back());
  shrink::PruningPlan plan;
  times.find.push_back(
      bench::seconds_of([&] { plan = pruner->to(o.flops, shrink::flops_of(input)); }));
  times.remove.push_back(bench::seconds_of([&] { shrink::remove_channels(*model, plan.cut); }));
  times.all.push_back(bench::seconds_since(start) - times.group.back());
}

void measure(const Options& o) {
  Times times;
  for (int round = 0; round < o.rounds; ++round)
    prune_once(o, shrink::criterion_of(o.criterion), times);
  fmt::print(
      "{} at {}, {} of the FLOPs by {}: group {:.3f} s, score {:.3f} s, find {:.3f} s, "
      "remove {:.3f} s; together {:.3f} s ({:.3f} to {:.3f})\n",
      o.model, o.size, o.flops, o.criterion, bench::median(times.group), bench::median(times.score),
      bench::median(times.find), bench::median(times.remove), bench::spread_of(times.all).median,
      bench::spread_of(times.all).least, bench::spread_of(times.all).most);
}

}  // namespace

int main(int argc, char** argv) {
  apps::App app("How long it takes to prune a model.", "prune_bench");
  Options options;
  app.add_option("--model", options.model).shows_default();
  app.add_option("--criterion", options.criterion).shows_default();
  app.add_option("--size", options.size).shows_default();
  app.add_option("--flops", options.flops).shows_default();
  app.add_option("--rounds", options.rounds).shows_default().check(apps::whole_number(1));
  return apps::run_program(app, argc, argv, [&] { measure(options); });
}
