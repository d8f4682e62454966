// Every bundled model, pruned at ten ratios by each criterion: what is left runs forward and
// backward, and takes what the plan says.
#include <doctest/doctest.h>

#include <algorithm>

#include "brim/autograd/backward.h"
#include "brim/ops/sum.h"
#include "brim/shrink/prune.h"
#include "brim/tests/shrink/zoo.h"

using namespace brim;

namespace {

// Gradients for `Criterion::taylor`: drawn.
void draw_gradients(nn::Module& model) {
  for (const nn::NamedTensor& parameter : model.named_parameters())
    parameter.tensor.set_grad(
        uniform(parameter.tensor.shape(), -1, 1, derive(RandomKey{9}, parameter.name)));
}

int64_t elements_after(const nn::Module& model, const shrink::ChannelCut& cut) {
  int64_t elements = 0;
  for (const nn::NamedTensor& parameter : model.named_parameters())
    elements += numel(cut.shape_after(parameter.name, parameter.tensor.shape()));
  return elements;
}

void train_once(nn::Module& model, const Shape& input, Device device) {
  Tensor y = model(empty(input, {.device = device}));
  backward(sum(std::move(y)));
  for (const nn::NamedTensor& parameter : model.named_parameters())
    CHECK(parameter.tensor.grad().shape() == parameter.tensor.shape());
}

}  // namespace

TEST_CASE("prune, zoo: at any ratio, by each criterion, a model runs and counts as planned") {
  for (const std::string& name : testing::zoo()) {
    CAPTURE(name);
    auto model = testing::make_zoo_model(name, {.classes = 10, .seed = 1});
    const Shape input = testing::zoo_input(name, 2);
    draw_gradients(*model);
    double most = 0;
    for (const std::string& criterion : shrink::criterion_names()) {
      const shrink::Pruner pruner(*model, input, {.criterion = shrink::criterion_of(criterion)});
      for (uint64_t i = 0; i < 10; ++i) {
        const double ratio = random_uniform(derive(RandomKey{11}, criterion), 0, i);
        CAPTURE(criterion);
        CAPTURE(ratio);
        const shrink::PruningPlan plan = pruner.ratio(ratio, shrink::flops_of(input));
        int64_t gone = 0;
        for (const std::vector<bool>& group : plan.kept) gone += std::ranges::count(group, false);
        CHECK(plan.removed ==
              doctest::Approx(static_cast<double>(gone) / static_cast<double>(pruner.units())));
        most = std::max(most, plan.removed);
        const int64_t elements = elements_after(*model, plan.cut);
        nn::MetaScope on_meta(*model);
        shrink::remove_channels(*model, plan.cut);
        CHECK(model->parameter_count() == elements);
        CHECK(shrink::flops_of(input)(*model) == plan.after);
        CHECK((plan.cut.empty() || plan.after < plan.before));
        train_once(*model, input, Device::meta());
      }
    }
    CHECK(most > 0.3);
  }
}
