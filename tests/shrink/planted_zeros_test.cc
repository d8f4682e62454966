// Every bundled model: removing channels of zeros, planted, changes nothing. This proves the
// grouping.
#include <doctest/doctest.h>

#include <algorithm>

#include "brim/autograd/op.h"
#include "brim/nn/eval_scope.h"
#include "brim/shrink/channel_cut.h"
#include "brim/tests/shrink/zoo.h"

using namespace brim;

namespace {

// Numbers for what a new model has alike in all channels.
void vary(nn::Module& model) {
  model.for_each_slot([](const std::string& name, const nn::Module::Slot& slot) {
    if (slot.tensor->dim() == 1) fill_uniform(*slot.tensor, 0.5, 1.5, derive(RandomKey{7}, name));
  });
}

// Some units of each group, never all.
shrink::KeptUnits drawn_units(const shrink::ChannelGroups& groups) {
  shrink::KeptUnits kept;
  for (size_t g = 0; g < groups.groups.size(); ++g) {
    std::vector<bool>& stays = kept.emplace_back();
    for (int64_t unit = 0; unit < groups.groups[g].units; ++unit)
      stays.push_back(random_uniform({3}, g, static_cast<uint64_t>(unit)) < 0.7f);
    stays.front() = true;
  }
  return kept;
}

// Zeros in all that goes with the units that are not kept, but for statistics.
void plant_zeros(nn::Module& model, const shrink::ChannelGroups& groups,
                 const shrink::KeptUnits& kept) {
  for (size_t g = 0; g < groups.groups.size(); ++g)
    for (const shrink::ChannelAxis& axis : groups.groups[g].axes) {
      if (axis.role == shrink::ChannelRole::statistic) continue;
      Tensor tensor = model.tensor(groups.tensors[axis.tensor].name);
      for (size_t i = 0; i < axis.indices.size(); ++i) {
        if (kept[g][i / static_cast<size_t>(axis.per_unit)]) continue;
        Layout layout = tensor.layout();
        layout.offset += axis.indices[i] * layout.strides[axis.axis];
        layout.shape[axis.axis] = 1;
        fill(Tensor(tensor.storage(), layout), 0);
      }
    }
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0, scale = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x[i] - y[i]));
    scale = std::max(scale, std::abs(x[i]));
  }
  return largest / scale;
}

}  // namespace

TEST_CASE("prune, zoo: channels of zeros change the output by rounding alone when they go") {
  for (const std::string& name : testing::zoo()) {
    CAPTURE(name);
    auto model = testing::make_zoo_model(name, {.classes = 10, .seed = 1, .dtype = Dtype::float64});
    vary(*model);
    const shrink::ChannelGroups groups =
        shrink::find_channel_groups(*model, testing::zoo_input(name, 1));
    CHECK(groups.unknown_ops.empty());
    REQUIRE(!groups.groups.empty());
    const shrink::KeptUnits kept = drawn_units(groups);
    plant_zeros(*model, groups, kept);
    nn::EvalScope eval(*model);
    autograd::NoGradScope no_grad;
    const Tensor x = uniform(testing::zoo_input(name, 2), -1, 1, {5}, {.dtype = Dtype::float64});
    const Tensor before = (*model)(x);
    const int64_t parameters = model->parameter_count();
    shrink::remove_channels(*model, {groups, kept});
    CHECK(model->parameter_count() < parameters);
    CHECK(largest_difference(before, (*model)(x)) < 1e-12);
  }
}
