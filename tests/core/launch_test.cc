#include "brim/core/launch.h"

#include <doctest/doctest.h>

#include "brim/base/cuda/error.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;

namespace {

struct Scale {
  float factor = 1;
};
constexpr Kernel<Scale> scale{"test_scale"};

// Goes through scratch, so that its bytes can be seen.
void scale_f32(const KernelCall& call, const Scale& attributes) {
  ScratchCursor cursor(call.scratch);
  auto* copy = cursor.take<float>(call.in[0].numel());
  for (int64_t i = 0; i < call.in[0].numel(); ++i) copy[i] = call.in[0].as<float>()[i];
  for (int64_t i = 0; i < call.in[0].numel(); ++i)
    call.out[0].as<float>()[i] = attributes.factor * copy[i];
}
int64_t scale_scratch(const KernelCall& call, const Scale&) {
  ScratchCursor cursor(nullptr);
  cursor.take<float>(call.in[0].numel());
  return cursor.used();
}
const bool registered =
    (register_kernel(scale, DeviceType::cpu, Dtype::float32, scale_f32, scale_scratch), true);

class Names final : public LaunchObserver {
 public:
  void launched(const LaunchEvent& event) override { names += std::string(event.kernel) + " "; }
  void finished() override { names += "done "; }
  std::string names;
};

}  // namespace

TEST_CASE("a kernel runs with its attributes, and its scratch is charged for its time") {
  REQUIRE(registered);
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Tensor x = full({100}, 2), y = empty({100});
  launch(scale, {x}, {y}, {.factor = 3});
  CHECK(y.to_vector<float>().back() == 6);
  CHECK(account->stats().by_category_at_peak[static_cast<size_t>(memory::Category::scratch)] ==
        448);
  CHECK(account->stats().by_category[static_cast<size_t>(memory::Category::scratch)] == 0);
}

TEST_CASE("the meta device asks for the same bytes and runs nothing") {
  auto peak = [](Device device) {
    auto account = memory::account(device);
    Tensor x = zeros({1000}, {.device = device}), y = empty({1000}, {.device = device});
    account->reset_peak();
    int64_t before = account->stats().live;
    launch(scale, {x}, {y}, {.factor = 3});
    return account->stats().peak_live - before;
  };
  CHECK(peak(Device::meta()) == peak(Device::cpu()));
}

TEST_CASE(
    "low precision without a kernel of its own goes through float32 and rounds to the nearest") {
  for (Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    // 3 + 3 epsilon is between two neighbours, 2 epsilon apart there; the even one is above.
    double epsilon = dtype == Dtype::float16 ? 0x1p-10 : 0x1p-7;
    Tensor x = full({5}, 1 + epsilon, {.dtype = dtype}), y = empty({5}, {.dtype = dtype});
    launch(scale, {x}, {y}, {.factor = 3});
    CHECK(y.to_vector<double>() == std::vector<double>(5, 3 + 4 * epsilon));
  }
}

TEST_CASE("a kernel for halves takes what suits it, the float32 one the rest") {
  static std::vector<Dtype> ran;
  const Kernel<NoAttributes> kernel{"test_suits"};
  const auto run = [](const KernelCall& call, const NoAttributes&) {
    ran.push_back(call.out[0].dtype);
  };
  register_kernel(kernel, DeviceType::cpu, Dtype::float32, run);
  register_kernel(
      kernel, DeviceType::cpu, Dtype::bfloat16, run, nullptr,
      [](const KernelCall& call, const NoAttributes&) { return call.out[0].numel() % 2 == 0; });
  launch(kernel, {}, {zeros({4}, {.dtype = Dtype::bfloat16})});
  launch(kernel, {}, {zeros({3}, {.dtype = Dtype::bfloat16})});
  launch(kernel, {}, {zeros({4}, {.dtype = Dtype::float16})});
  CHECK(ran == std::vector{Dtype::bfloat16, Dtype::float32, Dtype::float32});
}

TEST_CASE("a dtype without a kernel is refused by name") {
  Tensor x = zeros({5}, {.dtype = Dtype::int32}), y = empty({5}, {.dtype = Dtype::int32});
  CHECK_THROWS_WITH_AS(launch(scale, {x}, {y}), "test_scale: has no kernel for int32 on cpu",
                       DtypeError);
}

TEST_CASE("a library that gets no memory of its own is out of memory, with the account's numbers") {
  constexpr Kernel<NoAttributes> starved{"test_starved"};
  register_kernel(starved, DeviceType::cpu, Dtype::float32,
                  [](const KernelCall&, const NoAttributes&) {
                    throw cuda::AllocationError("library", "no memory for its handle");
                  });
  Tensor x = zeros({5});
  uint32_t before = x.storage()->version();
  try {
    launch(starved, {}, {x});
    FAIL("nothing was thrown");
  } catch (const memory::OutOfMemory& error) {
    CHECK(error.shortage().requested == 0);
    CHECK(error.shortage().live >= 64);
    CHECK(error.shortage().device == Device::cpu());
  }
  CHECK(x.storage()->version() == before);
}

TEST_CASE("buffers on two devices are refused") {
  Tensor x = zeros({5}), y = empty({5}, {.device = Device::meta()});
  CHECK_THROWS_AS(launch(scale, {x}, {y}), DeviceError);
}

TEST_CASE("a launch raises the version of what it writes and leaves its name") {
  Tensor x = zeros({5}), y = zeros({5});
  uint32_t before = y.storage()->version(), input = x.storage()->version();
  launch(scale, {x}, {y});
  CHECK(y.storage()->version() == before + 1);
  CHECK(x.storage()->version() == input);
  CHECK(std::string(y.storage()->last_writer()) == "test_scale");
}

TEST_CASE("observers see every launch of their scope, before and after") {
  Names outer, inner;
  Tensor x;
  {
    LaunchObserverScope outer_scope(outer);
    x = zeros({5});
    LaunchObserverScope inner_scope(inner);
    launch(scale, {x}, {x});
  }
  launch(scale, {x}, {x});
  CHECK(outer.names == "fill done test_scale done ");
  CHECK(inner.names == "test_scale done ");
}

TEST_CASE("a launch that throws is seen to begin and not to finish") {
  Names observer;
  LaunchObserverScope scope(observer);
  Tensor x = empty({5}, {.dtype = Dtype::int32});
  CHECK_THROWS_AS(launch(scale, {x}, {x}), DtypeError);
  CHECK(observer.names == "test_scale ");
}
