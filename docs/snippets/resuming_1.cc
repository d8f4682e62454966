// Resuming exactly: a training that is stopped after three updates, and one that is not.
#include <cstdlib>
#include <filesystem>

#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/optim/sgd.h"
#include "brim/train/checkpoint.h"
#include "brim/train/trainer.h"

using namespace brim;

namespace {

struct Net final : nn::Module {
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1}};
  nn::Linear fc{8, 4};
  Net() {
    register_modules({{"conv", conv}, {"fc", fc}});
    nn::initialize(*this, /*seed=*/4);
  }
  Tensor forward(Tensor x) override { return fc(global_avg_pool(relu(conv(std::move(x))))); }
};

/// The losses of the updates that it does, up to `stop_after`.
std::vector<double> train(const std::string& folder, int64_t stop_after) {
  Net net;
  optim::Sgd sgd(net.named_parameters(), {.momentum = 0.9});
  SyntheticSource source({.count = 8, .size = 8, .classes = 4}, /*batches=*/4);
  // [folder]
  Checkpoints checkpoints(folder, {.keep = 2, .identity = {{"model", "net"}, {"seed", "4"}}});
  TrainerOptions options{.steps = 6, .seed = 4, .checkpoints = &checkpoints, .checkpoint_every = 2};
  // [/folder]
  std::vector<double> losses;
  // [resume]
  Trainer trainer(net, sgd, {source}, options);
  trainer.on_step = [&](const StepReport& step) { losses.push_back(step.loss); };
  trainer.should_stop = [&] { return trainer.updates() == stop_after; };
  NewestCheckpoint found = trainer.resume();
  trainer.run();
  // [/resume]
  check(found.passed_over.empty(), "all are whole");
  return losses;
}

}  // namespace

int main() {
  std::string name = (std::filesystem::temp_directory_path() / "brim-resuming-XXXXXX").string();
  check(::mkdtemp(name.data()) != nullptr, "a folder");
  const std::vector<double> whole = train(name + "/whole", 6);
  std::vector<double> parts = train(name + "/parts", 3);
  check(parts.size() == 3, "stopped");
  for (double loss : train(name + "/parts", 6)) parts.push_back(loss);
  check(parts == whole, "the same bits");
  std::filesystem::remove_all(name);
}
