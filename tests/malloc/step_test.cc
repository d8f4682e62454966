// A training step asks malloc for nothing large behind the account's back, once it is warm.
#include <doctest/doctest.h>

#include "brim/autograd/op.h"
#include "brim/nn/models/registry.h"
#include "brim/optim/sgd.h"
#include "brim/tests/malloc/malloc_watch.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/train_step.h"

using namespace brim;
using namespace brim::testing;

namespace {

void check_model(const std::string& name, int64_t size) {
  CAPTURE(name);
  auto model = nn::make_model(name, {.classes = 100, .seed = 1});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  TrainStep step(*model, sgd);
  Problem problem = random_problem(4, size, 100);
  auto update = [&] {
    step.run(0.01, [&] { return cross_entropy((*model)(problem.images), problem.labels); });
  };
  auto evaluate = [&] {
    autograd::NoGradScope no_grad;
    model->eval();
    (*model)(problem.images);
    model->train();
  };
  for (int i = 0; i < 2; ++i) {
    update();
    evaluate();
  }
  MallocWatch watch;
  update();
  evaluate();
  if (watch.largest() > 0) watch.print_caller();
  CHECK(watch.largest() == 0);
}

}  // namespace

TEST_CASE("training and evaluating allocate nothing large outside the account") {
  check_model("resnet20", 32);
  check_model("resnet18", 64);
  check_model("resnet50", 64);
  check_model("resnet152", 32);  // the most parameters
  check_model("mobilenet_v1", 64);
  check_model("mobilenet_v2", 64);
}
