// The block of offload.md: layers whose saved tensors wait in the host, with the same gradients.
#include "brim/autograd/backward.h"
#include "brim/autograd/offload.h"
#include "brim/autograd/offload_all.h"
#include "brim/ops/ops.h"

using namespace brim;

int main() {
  Tensor w = uniform({64, 64}, -1, 1, {1}).set_requires_grad();
  const Tensor images = uniform({256, 64}, -1, 1, {2});
  auto loss_of = [&](Tensor x) {
    for (int layer = 0; layer < 8; ++layer) x = tanh(matmul(std::move(x), w));
    return sum(std::move(x));
  };
  backward(loss_of(images));
  const std::vector<float> expected = w.grad().to_vector<float>();
  w.set_grad({});

  // [offload]
  autograd::Offload engine(Device::cpu(), autograd::offload_host(Device::cpu(), 16 << 20));
  autograd::OffloadScope moving(&engine);
  Tensor loss;
  {
    autograd::OffloadAll all(/*least_bytes=*/4096);
    autograd::SavePolicyScope saving(&all);
    loss = loss_of(images);
  }
  const int64_t waiting = engine.host().stats().live;  // bytes in the host, or on their way
  backward(std::move(loss));
  // [/offload]
  check(waiting >= 6 * 256 * 64 * 4, "most results of layers wait in the host");
  check(engine.host().stats().live == 0, "nothing is left there");
  check(w.grad().to_vector<float>() == expected, "the same bits");
}
