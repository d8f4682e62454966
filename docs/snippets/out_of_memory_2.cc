// What a loop leaves behind, and what is held.
#include <cstdio>
#include <vector>

#include "brim/memory/no_growth.h"
#include "brim/memory/summary.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"

using namespace brim;

int main() {
  auto account = memory::capped_host_account("direct", 8 << 20);
  memory::AccountScope scope(account);
  nn::Linear head{64, 10};
  nn::initialize(head, /*seed=*/1);
  Tensor x = uniform({32, 64}, -1, 1, RandomKey{1}), y = zeros({32, 10});
  std::string found;
  {
    // [no-growth]
    std::vector<Tensor> losses;
    try {
      memory::NoGrowth no_growth(Device::cpu());
      losses.push_back(mse_loss(head(x), y));  // and with it the graph
    } catch (const memory::GrowthError& error) {
      std::printf("%s\n", error.what());
      found = error.what();
    }
    // [/no-growth]
    check(losses.size() == 1, "held");
  }
  check(found.find("float32 [32,10]  linear at docs/snippets/out_of_memory_2.cc") !=
            std::string::npos,
        "the result that the loss was made of");
  {
    // [value]
    std::vector<double> losses;
    memory::NoGrowth no_growth(Device::cpu());
    losses.push_back(mse_loss(head(x), y).item<double>());
    // [/value]
  }
  // [snapshot]
  for (const memory::BufferInfo& buffer : memory::memory_snapshot(Device::cpu()))
    std::printf("%s\n", to_string(buffer).c_str());
  // [/snapshot]
  check(memory::memory_allocated(Device::cpu()) == account->stats().live, "the same number");
  check(memory::memory_snapshot(Device::cpu()).size() == 4, "two of the layer, two of the data");
}
