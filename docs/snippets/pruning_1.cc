// What masks leave as it is, and what goes with a channel.
#include <cstdio>

#include "brim/brim.h"
#include "brim/shrink/sparse_weights.h"
#include "brim/shrink/weight_masks.h"

using namespace brim;

namespace {

void check(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(what);
}

int64_t bytes_of(nn::Module& model) {
  int64_t bytes = 0;
  for (const nn::NamedTensor& parameter : model.named_parameters())
    bytes += parameter.tensor.numel() * size_of(parameter.tensor.dtype());
  return bytes;
}

void mask() {
  // [mask]
  auto model = nn::make_model("resnet20", {.classes = 10});
  const int64_t before = bytes_of(*model);
  shrink::WeightMasks masks(*model, {.amount = 0.9});  // nine of ten weights are 0 from now on
  check(bytes_of(*model) == before, "zeros take the bytes of any other numbers");
  check(shrink::flops_of({1, 32, 32, 3})(*model) ==
            shrink::flops_of({1, 32, 32, 3})(*nn::make_model("resnet20", {.classes = 10})),
        "and are multiplied like any other");
  // [/mask]
  const shrink::SparseReport report = shrink::sparse_report(*model);
  std::printf("a file of compressed rows: %.2f of the bytes\n",
              static_cast<double>(report.stored_bytes) / static_cast<double>(report.dense_bytes));
  check(report.stored_bytes < 0.3 * static_cast<double>(report.dense_bytes), "compressed");
}

void group() {
  // [group]
  auto model = nn::make_model("resnet20", {.classes = 10});
  const shrink::ChannelGroups groups = shrink::find_channel_groups(*model, {1, 32, 32, 3});
  for (const shrink::ChannelGroup& group : groups.groups) {
    std::printf("%s: %d times", group.name.c_str(), static_cast<int>(group.units));
    for (const shrink::ChannelAxis& axis : group.axes)
      std::printf(" %s:%d", groups.tensors[axis.tensor].name.c_str(), axis.axis);
    std::printf("\n");
  }
  // [/group]
  check(groups.groups.size() > 9, "a group for each block's inside, and those of the stream");
}

void prune() {
  // [prune]
  auto model = nn::make_model("resnet20", {.classes = 10});
  const Shape input{1, 32, 32, 3};
  const shrink::Pruner pruner(*model, input, {.criterion = shrink::Criterion::l2, .multiple = 1});
  const shrink::PruningPlan plan = pruner.to(0.5, shrink::flops_of(input));
  shrink::remove_channels(*model, plan.cut);
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});  // and it trains on
  // [/prune]
  check(plan.after <= 0.5 * plan.before, "half the FLOPs");
  check(shrink::flops_of(input)(*model) == plan.after, "as planned");
}

}  // namespace

int main() {
  mask();
  group();
  prune();
}
