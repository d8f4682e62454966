// The meta device: shapes and an account, without bytes.
#include "brim/autograd/backward.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/cross_entropy.h"

using namespace brim;

namespace {

void resnet50() {
  // [meta]
  auto model = nn::make_model("resnet50", {.device = Device::meta()});
  Tensor logits = (*model)(empty({32, 224, 224, 3}, {.device = Device::meta()}));
  check(logits.shape() == Shape{32, 1000}, "every shape on the way was inferred and checked");

  memory::AccountStats stats = memory::account(Device::meta())->stats();
  auto live = [&](memory::Category c) { return stats.by_category[static_cast<size_t>(c)]; };
  check(live(memory::Category::parameters) == 102'228'160, "97.5 MiB");
  check(live(memory::Category::activations) == 2'271'178'752, "2.1 GiB held for backward");
  // [/meta]
}

memory::AccountStats one_step(std::shared_ptr<memory::Account> account) {
  memory::AccountScope scope(account);
  Device device = account->device();
  auto model = nn::make_model("resnet20", {.classes = 10, .device = device});
  Tensor images = full({8, 32, 32, 3}, 0.5, {.device = device});
  Tensor labels = zeros({8}, {.dtype = Dtype::int64, .device = device});
  backward(cross_entropy((*model)(images), labels));
  return account->stats();
}

void compare() {
  // [same-bytes]
  memory::AccountStats real = one_step(memory::capped_host_account("caching"));
  memory::AccountStats meta = one_step(std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("caching")));
  check(meta.requests == real.requests, "the same requests");
  check(meta.peak_live == real.peak_live, "the same peak, to the byte");
  check(meta.peak_reserved == real.peak_reserved, "of reserved bytes, too");
  // [/same-bytes]
}

}  // namespace

int main() {
  resnet50();
  compare();
}
