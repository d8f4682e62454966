// Networks whose saved tensors wait in the host: the same bits with fewer device bytes, whatever
// else becomes of others, and nothing left behind where memory runs out. When what moves is in
// offload_moves_test.cc.
#include "brim/autograd/offload.h"

#include <doctest/doctest.h>

#include <map>

#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/autograd/free_recomputation.h"
#include "brim/autograd/in_place.h"
#include "brim/autograd/offload_all.h"
#include "brim/memory/out_of_memory.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/tests/nn/block_net.h"
#include "brim/tests/support/offload_machine.h"

using namespace brim;
using namespace brim::testing;
using autograd::Fate;

namespace {

/// With indices of a pool too.
struct Net final : BlockNet {
  Net() {
    register_module("fc", fc);
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor head(Tensor x) {
    x = max_pool2d(std::move(x), {.kernel = 2, .stride = 2});
    return fc(reshape(std::move(x), {4, 8 * 8 * 8}));
  }
  Tensor forward(Tensor x) override { return head(block(stem(std::move(x)))); }

  nn::Linear fc{8 * 8 * 8, 4};
};

struct Result {
  std::vector<std::vector<double>> numbers;  // loss, gradients, buffers
  int64_t saved_bytes = 0;                   // on the device after forward, but for the model
  int64_t peak = 0;
  int64_t host_peak = 0;
  autograd::OffloadStats stats;
};

using Forward = std::function<Tensor(Net&, Tensor)>;

Tensor plainly(Net& net, Tensor x) { return net(std::move(x)); }
Tensor in_two_pieces(Net& net, Tensor x) {
  x = autograd::checkpoint([&](Tensor t) { return net.stem(std::move(t)); }, std::move(x));
  return net.head(net.block(std::move(x)));
}
Tensor piece_in_the_middle(Net& net, Tensor x) {
  x = net.stem(std::move(x));
  x = autograd::checkpoint([&](Tensor t) { return net.block(std::move(t)); }, std::move(x));
  return net.head(std::move(x));
}

/// Null for the policy: everything is kept.
Result run(const Forward& forward, autograd::SavePolicy* policy, bool late = true,
           Dtype dtype = Dtype::float32) {
  OffloadMachine machine(late);
  Result result;
  {
    Net net;
    net.to(dtype);
    const int64_t before = machine.live();
    autograd::RandomScope random(/*seed=*/5, /*update=*/0, /*first_sample=*/0);
    Tensor x = convert_to(images(), {.dtype = dtype});
    machine.device->reset_peak();
    Tensor loss;
    {
      autograd::SavePolicyScope saving(policy);
      loss = mean(forward(net, std::move(x)));
    }
    result.saved_bytes = machine.live() - before;
    result.numbers.push_back(loss.to_vector<double>());
    backward(std::move(loss));
    result.peak = machine.device->stats().peak_live - before;
    result.host_peak = machine.host->stats().peak_live;
    CHECK(machine.host_live() == 0);
    for (const auto& [name, parameter] : net.named_parameters()) {
      REQUIRE(parameter.grad().defined());
      result.numbers.push_back(parameter.grad().to_vector<double>());
    }
    for (const auto& [name, buffer] : net.named_buffers())
      result.numbers.push_back(buffer.to_vector<double>());
  }
  result.stats = machine.engine.stats();
  CHECK(machine.live() == 0);
  machine.check_rules();
  return result;
}

/// For each result one of the four fates, from the seed.
class RandomFates final : public autograd::SavePolicy {
 public:
  explicit RandomFates(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  autograd::Decision decide(const autograd::RecordedCall& call) override {
    autograd::Decision decision;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      decision.fates.push_back(static_cast<Fate>(state_ >> 33 & 3));
    }
    return decision;
  }

 private:
  uint64_t state_;
};

}  // namespace

TEST_CASE("what is offloaded gives the same bits with fewer device bytes") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    for (bool in_place : {false, true}) {
      autograd::InPlaceScope scope(in_place);
      const Result kept = run(plainly, nullptr, true, dtype);
      CHECK(kept.stats.copies_out == 0);
      for (bool late : {false, true}) {
        autograd::OffloadAll all;
        const Result moved = run(plainly, &all, late, dtype);
        CHECK(moved.numbers == kept.numbers);
        CHECK(moved.saved_bytes < kept.saved_bytes / 2);
        CHECK(moved.peak < kept.peak);
        CHECK(moved.stats.copies_in > 0);
        CHECK(moved.stats.copies_in <= moved.stats.copies_out);
        CHECK(moved.stats.refused == 0);
      }
    }
}

TEST_CASE("beside recomputation and checkpoints the bits are the same too") {
  for (bool in_place : {false, true}) {
    autograd::InPlaceScope scope(in_place);
    const Result kept = run(plainly, nullptr);
    for (const Forward& forward :
         {Forward(plainly), Forward(in_two_pieces), Forward(piece_in_the_middle)}) {
      autograd::OffloadAll all;
      const Result moved = run(forward, &all);
      CHECK(moved.numbers == kept.numbers);
      CHECK(moved.stats.copies_in > 0);
      // What is free to be made again is not moved.
      autograd::OffloadAll with_free(0, std::make_unique<autograd::FreeRecomputation>());
      const Result fewer = run(forward, &with_free);
      CHECK(fewer.numbers == kept.numbers);
      CHECK(fewer.stats.copies_in > 0);
      CHECK(fewer.host_peak <= moved.host_peak);
    }
  }
}

TEST_CASE("any mixture of fates gives the same bits") {
  for (bool in_place : {false, true}) {
    autograd::InPlaceScope scope(in_place);
    const Result kept = run(plainly, nullptr);
    for (uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(seed);
      RandomFates fates(seed);
      const Forward& forward = seed % 3 == 0 ? Forward(piece_in_the_middle) : Forward(plainly);
      CHECK(run(forward, &fates).numbers == kept.numbers);
    }
  }
}

TEST_CASE("refused requests in backward leave the bytes of both as they were") {
  OffloadMachine machine;
  Net net;
  autograd::OffloadAll all(0, std::make_unique<autograd::FreeRecomputation>());
  std::map<std::string, std::vector<float>> expected;
  for (int64_t n = 0;; ++n) {
    REQUIRE(n < 500);
    const int64_t before = machine.live();
    bool failed = false;
    {
      autograd::RandomScope random(5, 0, 0);
      Tensor loss;
      {
        autograd::SavePolicyScope saving(&all);
        loss = mean(net(images()));
      }
      const int64_t saved = machine.live();
      machine.device->fail_nth(n);  // at first none
      try {
        backward(loss);
      } catch (const memory::OutOfMemory&) {
        failed = true;
        CHECK(machine.live() <= saved);
      }
      machine.device->fail_nth(0);
      for (const auto& [name, parameter] : net.named_parameters()) {
        std::vector<float> gradient;
        if (!failed) gradient = parameter.grad().to_vector<float>();
        if (n == 0) expected[name] = gradient;
        if (!failed) CHECK(gradient == expected[name]);
        parameter.set_grad({});
      }
    }
    CHECK(machine.live() == before);
    CHECK(machine.host_live() == 0);
    if (n > 0 && !failed) break;
  }
  machine.check_rules();
}
