// When bytes come back: names, nesting, moving; and what the tape holds.
#include <cstdio>

#include "brim/autograd/backward.h"
#include "brim/autograd/in_place.h"
#include "brim/nn/init.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"

using namespace brim;

namespace {

constexpr int64_t kBuffer = 256 * 1024;

// The most buffers of 256 KiB that were alive while `body` ran on one of them.
template <class Body>
int64_t most_buffers(const Body& body) {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  body(full({64, 1024}, 1));
  check(account->stats().live == 0, "everything came back");
  return account->stats().peak_live / kBuffer;
}

void names() {
  int64_t named = most_buffers([](Tensor x) {
    // [named]
    Tensor a = relu6(x);
    Tensor b = softmax(a);
    Tensor y = relu(b);
    // [/named]
  });
  int64_t nested = most_buffers([](Tensor x) { Tensor y = relu(softmax(relu6(x))); });
  int64_t moved = most_buffers([](Tensor x) { Tensor y = relu(softmax(relu6(std::move(x)))); });
  int64_t reassigned = most_buffers([](Tensor x) {
    // [reassigned]
    x = relu6(std::move(x));
    x = softmax(std::move(x));
    x = relu(std::move(x));
    // [/reassigned]
  });
  std::printf("%ld %ld %ld %ld\n", static_cast<long>(named), static_cast<long>(nested),
              static_cast<long>(moved), static_cast<long>(reassigned));
  check(named == 4 && nested == 3 && moved == 2 && reassigned == 2, "as the page says");
}

void holds() {
  // [holds]
  Tensor x = ones({4}).set_requires_grad();
  Tensor y = relu(x);  // relu saves its output
  std::shared_ptr<Storage> bytes = y.storage();
  check(bytes->handles() == 1 && bytes->tape_holds() == 1, "held by y, and by the tape");

  Tensor loss = sum(std::move(y));  // sum saves nothing
  check(bytes->handles() == 0 && bytes->tape_holds() == 1, "only backward can reach it now");

  backward(loss);
  check(bytes->handles() == 0 && bytes->tape_holds() == 0, "backward used it and let it go");
  // [/holds]
}

void in_place() {
  // [overwriting]
  autograd::InPlaceScope in_place(true);
  Tensor a = ones({4});
  const void* bytes_of_a = a.data();
  Tensor b = relu(std::move(a));  // nobody else has a, and nothing saved it
  check(b.data() == bytes_of_a, "written over a");
  Tensor c = neg(b);  // b can still be read
  check(c.data() != b.data(), "so it is left alone");
  // [/overwriting]
}

// Bytes of activations after the forward pass of a block, in buffers.
template <class Forward>
double held_after(const Forward& forward) {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  nn::Conv2d conv(32, 32, {.kernel = 3, .padding = 1, .bias = false});
  nn::BatchNorm2d bn(32);
  nn::initialize(conv, 1);
  nn::initialize(bn, 1);
  Tensor x = full({8, 16, 16, 32}, 1);
  int64_t before = account->stats().live;
  auto held = forward(x, conv, bn);
  return static_cast<double>(account->stats().live - before) / kBuffer;
}

void block() {
  double moved = held_after([](Tensor x, nn::Conv2d& conv, nn::BatchNorm2d& bn) {
    // [block]
    Tensor y = relu(bn(conv(x)));
    // [/block]
    return y;
  });
  double named = held_after([](Tensor x, nn::Conv2d& conv, nn::BatchNorm2d& bn) {
    Tensor a = conv(x), b = bn(a), y = relu(b);
    return Tensors{a, b, y};
  });
  std::printf("block: %.4f moved, %.4f named\n", moved, named);
  check(moved > 2 && moved < 2.01, "the convolution's output and relu's");
  check(named > 3 && named < 3.01, "and batch norm's");
}

}  // namespace

int main() {
  names();
  holds();
  in_place();
  block();
}
