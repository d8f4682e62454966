// When saved tensors leave for the host and come back: at the same calls however long a copy takes,
// one copy for a storage, never before the last use nor after the first; and what is refused, kept
// and cleaned up. For the bits of networks see offload_test.cc.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/autograd/offload_all.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/offload_machine.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kPage = 64 * 64 * 4;  // bytes of `page()`

Tensor page() { return full({64, 64}, 1e-3).set_requires_grad(); }

/// exp(exp(...(x))), each of which saves its result.
Tensor exps(Tensor x, int times) {
  for (int i = 0; i < times; ++i) x = exp(std::move(x));
  return x;
}

}  // namespace

TEST_CASE("a value leaves at the call after its last use, and its bytes when a third one leaves") {
  for (bool late : {false, true}) {
    OffloadMachine machine(late);
    autograd::OffloadAll all;
    autograd::SavePolicyScope saving(&all);
    Tensor x = page();
    const int64_t before = machine.live();
    // The result, what it was made from, and two copies under way stay.
    const int64_t pages[] = {0, 1, 2, 3, 4, 4, 4, 4, 4};
    for (int calls = 1; calls <= 8; ++calls) {
      CAPTURE(calls);
      Tensor y = exps(x, calls);
      CHECK(machine.live() - before == pages[calls] * kPage);
      CHECK(machine.host_live() == std::max(calls - 2, 0) * kPage);
    }
    CHECK(machine.host_live() == 0);  // with the graphs
    machine.check_rules();
  }
}

TEST_CASE("backward has what it reads and two more, whatever was offloaded") {
  OffloadMachine machine;
  Tensor x = page();
  auto peak_of = [&](autograd::SavePolicy* policy) {
    autograd::SavePolicyScope saving(policy);
    Tensor y = exps(x, 30);
    const int64_t before = machine.live();
    machine.device->reset_peak();
    backward(std::move(y), {.grad = full({64, 64}, 1)});
    CHECK(machine.host_live() == 0);
    const int64_t peak = machine.device->stats().peak_live - before;
    return std::pair(x.grad().to_vector<float>(), peak);
  };
  autograd::OffloadAll all;
  const auto [moved, peak] = peak_of(&all);
  x.set_grad({});
  CHECK(moved == peak_of(nullptr).first);
  // As many values as before, but for one that is fetched ahead; and two gradients.
  CHECK(peak <= 3 * kPage);
  // The two that were still leaving were not fetched, nor what had no time to leave.
  CHECK(machine.engine.stats().copies_out - machine.engine.stats().copies_in >= 2);
  CHECK(machine.notes.most_under_way[0] == 2);
  CHECK(machine.notes.most_under_way[1] == 2);
  machine.check_rules();
}

TEST_CASE("a chain of twenty thousand calls has as few on the device") {
  OffloadMachine machine(/*late=*/false);
  autograd::OffloadAll all;
  Tensor x = full({16}, 0.5).set_requires_grad();
  auto gradient = [&](autograd::SavePolicy* policy) {
    autograd::SavePolicyScope saving(policy);
    x.set_grad({});
    Tensor y = x;
    for (int i = 0; i < 20'000; ++i) y = tanh(std::move(y));
    machine.device->reset_peak();
    backward(sum(std::move(y)));
    return x.grad().to_vector<float>();
  };
  const std::vector<float> moved = gradient(&all);
  CHECK(machine.device->stats().peak_live <= 12 * 64);
  CHECK(machine.host->stats().peak_live >= 19'990 * 64);
  CHECK(moved == gradient(nullptr));
}

TEST_CASE("who holds a tensor keeps it on the device") {
  OffloadMachine machine;
  autograd::OffloadAll all;
  autograd::SavePolicyScope saving(&all);
  Tensor y = exp(page());
  Tensor z = exps(y, 4);
  CHECK(machine.host_live() == 2 * kPage);
  y = Tensor();
  CHECK(machine.host_live() == 2 * kPage);
  z = exp(std::move(z));  // looks, and finds one more than it would have
  CHECK(machine.host_live() == 4 * kPage);
}

TEST_CASE("views leave with their storage, in one copy") {
  OffloadMachine machine;
  autograd::OffloadAll all;
  autograd::SavePolicyScope saving(&all);
  Tensor w = page();
  auto gradient = [&] {
    Tensor y = exp(w);  // saves its result
    Tensor z = mul(reshape(std::move(y), {64 * 64}), full({64 * 64}, 2).set_requires_grad());
    backward(sum(exps(std::move(z), 3)));  // mul has saved the view
    return w.grad().to_vector<float>();
  };
  const std::vector<float> moved = gradient();
  CHECK(machine.engine.stats().bytes_out == machine.engine.stats().copies_out * kPage);
  CHECK(machine.engine.stats().copies_out == 4);  // of five results that are saved
  w.set_grad({});
  autograd::OffloadScope without(nullptr);
  CHECK(gradient() == moved);
  CHECK(machine.host_live() == 0);
}

TEST_CASE("a value that was overwritten since is refused, and named with what wrote it") {
  OffloadMachine machine;
  autograd::OffloadAll all;
  autograd::SavePolicyScope saving(&all);
  const auto check_refused = [&](const Tensor& y) {
    CHECK_THROWS_WITH_AS(backward(y, {.grad = full({64, 64}, 1)}),
                         doctest::Contains("overwritten by 'fill'"), AutogradError);
  };
  Tensor x = page();
  SUBCASE("before it could leave") {
    Tensor y = exp(x);
    Tensor z = exps(y, 6);
    fill(y, 0);
    y = Tensor();
    check_refused(exp(std::move(z)));
  }
  // Nobody has a tensor over what leaves: only by way of its storage.
  for (int calls : {2, 6}) {  // under way; in the host
    CAPTURE(calls);
    Tensor y = exp(x);
    std::shared_ptr<Storage> storage = y.storage();
    const Layout layout = y.layout();
    Tensor z = exps(std::move(y), calls);
    CHECK(machine.host_live() > 0);
    fill(Tensor(storage, layout), 0);
    if (calls == 2) storage.reset();  // it did not leave, so the tape still has it
    check_refused(exps(std::move(z), 1));
  }
  CHECK(machine.host_live() == 0);
}

TEST_CASE("a graph that is retained goes back to the host and is gone through again") {
  OffloadMachine machine;
  Tensor x = page();
  autograd::OffloadAll all;
  Tensor y;
  {
    autograd::SavePolicyScope saving(&all);
    y = sum(exps(x, 12));
  }
  const int64_t held = machine.live();
  backward(y, {.retain_graph = true});
  const std::vector<float> once = x.grad().to_vector<float>();
  CHECK(machine.live() <= held + kPage);  // the gradient
  CHECK(machine.host_live() >= 8 * kPage);
  x.set_grad({});
  backward(y, {.retain_graph = true});
  CHECK(x.grad().to_vector<float>() == once);
  x.set_grad({});
  backward(y);
  CHECK(x.grad().to_vector<float>() == once);
  CHECK(machine.host_live() == 0);
  CHECK_THROWS_AS(backward(y), AutogradError);
  machine.check_rules();
}

TEST_CASE("a host without room keeps values on the device, and counts them") {
  OffloadMachine machine(/*late=*/true, /*host_bytes=*/3 * kPage);
  machine.host->replan(memory::planner_named("direct"));
  Tensor x = page();
  auto gradient = [&](autograd::SavePolicy* policy) {
    autograd::SavePolicyScope saving(policy);
    x.set_grad({});
    backward(sum(exps(x, 12)));
    return x.grad().to_vector<float>();
  };
  autograd::OffloadAll all;
  CHECK(gradient(&all) == gradient(nullptr));
  CHECK(machine.engine.stats().copies_out == 3);
  CHECK(machine.engine.stats().refused >= 6);
  CHECK(machine.host->stats().peak_reserved == 3 * kPage);
  machine.check_rules();
}

TEST_CASE("what fails in forward, or is dropped with copies under way, leaves nothing behind") {
  OffloadMachine machine;
  autograd::OffloadAll all;
  autograd::SavePolicyScope saving(&all);
  Tensor x = page();
  const int64_t before = machine.live();
  auto failing = [&] {
    Tensor y = exps(x, 5);
    if (y.defined()) throw std::runtime_error("no");
    return y;
  };
  CHECK_THROWS_AS(failing(), std::runtime_error);
  CHECK(machine.live() == before);
  CHECK(machine.host_live() == 0);
  machine.check_rules();
}

TEST_CASE("a graph outlives the scope and the engine that moved it") {
  Tensor y, x;
  auto device = memory::capped_host_account("direct");
  memory::AccountScope on_device(device);
  CopyNotes notes;
  auto host = memory::capped_host_account("direct");
  {
    autograd::Offload engine(Device::cpu(), host, std::make_unique<LateCopies>(notes));
    autograd::OffloadScope moving(&engine);
    autograd::OffloadAll all;
    autograd::SavePolicyScope saving(&all);
    x = page();
    y = sum(exps(x, 9));
  }
  CHECK(host->stats().live >= 5 * kPage);
  backward(std::move(y));
  const std::vector<float> moved = x.grad().to_vector<float>();
  x.set_grad({});
  backward(sum(exps(x, 9)));
  CHECK(x.grad().to_vector<float>() == moved);
  CHECK(host->stats().live == 0);
  CHECK(notes.changed + notes.unknown + notes.under_way[0] + notes.under_way[1] == 0);
}

TEST_CASE("without an engine, and for tensors elsewhere, what is offloaded is kept") {
  auto host = memory::capped_host_account("direct");
  autograd::OffloadAll all;
  autograd::SavePolicyScope saving(&all);
  Tensor x = page();
  backward(sum(exps(x, 6)));
  const std::vector<float> kept = x.grad().to_vector<float>();
  x.set_grad({});
  autograd::Offload elsewhere(Device::meta(), host);
  autograd::OffloadScope moving(&elsewhere);
  backward(sum(exps(x, 6)));
  CHECK(x.grad().to_vector<float>() == kept);
  CHECK(host->stats().requests == 0);
}
