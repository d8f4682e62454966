// Of op_times.md: where the time of an update goes.
#include <fmt/core.h>

#include "brim/brim.h"

using namespace brim;

namespace {

struct Net final : nn::Module {
  nn::Linear first{8, 32}, last{32, 4};
  Net() {
    register_modules({{"first", first}, {"last", last}});
    nn::initialize(*this, /*seed=*/1);
  }
  Tensor forward(Tensor x) override { return last(relu(first(std::move(x)))); }
};

}  // namespace

int main() {
  Net net;
  optim::Sgd sgd(net.named_parameters());
  TrainStep step(net, sgd);
  const Tensor images = uniform({16, 8}, -1, 1, RandomKey{1});
  const Tensor labels = zeros({16}, {.dtype = Dtype::int64});
  // [profile]
  Profile profile({.warm_up = 3, .updates = 5});
  for (int i = 0; !profile.is_done(); ++i) {
    Profile::Scope profiling(&profile, i);
    step.run(/*rate=*/0.1, [&] { return cross_entropy(net(images), labels); });
    profiling.keep();
  }
  const ProfileReport report = profile_report(profile, measured_peak());
  for (const std::string& line : summary_of(report)) fmt::print("{}\n", line);
  fmt::print("{}", table_of(report));
  // [/profile]
  const bool sees_both = by_module(report).size() == 3;  // and what is in neither
  return sees_both && report.launched.seconds > 0 && step.updates() == 8 ? 0 : 1;
}
