// A step that runs out of memory: what the error says, and what a trainer adds to it.
#include <cstdio>

#include "brim/memory/out_of_memory.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/optim/sgd.h"
#include "brim/train/trainer.h"

using namespace brim;

namespace {

struct Net final : nn::Module {
  nn::Conv2d conv1{3, 16, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{16};
  nn::Conv2d conv2{16, 16, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{16};
  nn::Linear fc{16, 10};
  Net() {
    register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv2", conv2}, {"bn2", bn2}, {"fc", fc}});
  }
  Tensor forward(Tensor x) override {
    x = bn1(conv1(std::move(x)), {.activation = Activation::relu});
    x = bn2(conv2(std::move(x)), {.activation = Activation::relu});
    return fc(global_avg_pool(std::move(x)));
  }
};

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

void run_out() {
  // [run-out]
  auto gpu = memory::capped_host_account("direct", 8 << 20);
  memory::AccountScope scope(gpu);
  Net model;
  nn::initialize(model, /*seed=*/1);
  optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
  TrainStep step(model, sgd);
  Tensor images = uniform({32, 32, 32, 3}, -1, 1, RandomKey{1});
  Tensor labels = zeros({32}, {.dtype = Dtype::int64});
  try {
    step.run(/*rate=*/0.1, [&] { return cross_entropy(model(images), labels); }, {.samples = 32});
  } catch (const memory::OutOfMemory& error) {
    std::printf("%s\n", error.what());
    // [/run-out]
    const memory::Shortage& s = error.shortage();
    check(s.section == memory::Section{memory::SectionKind::first_micro_step, 32}, "where it was");
    check(contains(error.what(), "float32 [32,32,32,16]  conv1: conv2d at docs/snippets/out_of"),
          "a large buffer by module, op, shape and line");
    check(contains(error.what(), "; in the first micro-step of 32\n"), "the part of the step");
    check(s.remedies.empty(), "a bare step plans nothing");
    return;
  }
  check(false, "not reached");
}

void remedies() {
  auto gpu = memory::capped_host_account("direct", 8 << 20);
  memory::AccountScope scope(gpu);
  Net model;
  nn::initialize(model, /*seed=*/1);
  optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
  SyntheticSource batches({.count = 32, .size = 32}, /*batches=*/1);
  // [remedies]
  Trainer trainer(model, sgd, {batches}, {.steps = 1});
  try {
    trainer.run();
  } catch (const memory::OutOfMemory& error) {
    for (const std::string& remedy : error.shortage().remedies) std::printf("%s\n", remedy.c_str());
    // [/remedies]
    check(error.shortage().remedies.size() == 1, "one that fits");
    check(contains(error.what(), "\n  planned, and found to fit:\n    batch "), "in the message");
    return;
  }
  check(false, "not reached");
}

}  // namespace

int main() {
  run_out();
  remedies();
}
