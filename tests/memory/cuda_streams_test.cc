// Bytes of a GPU that one stream has used go to another, or back to the driver, when that is safe:
// on an emulated GPU that is late, whose streams run apart where nobody orders them.
#include <doctest/doctest.h>

#ifdef BRIM_EMULATED_GPU

#include <cstring>
#include <memory>

#include "brim/base/cuda/driver.h"
#include "brim/base/cuda/event.h"
#include "brim/base/cuda/memory.h"
#include "brim/memory/account.h"
#include "brim/memory/cuda_source.h"
#include "brim/memory/cuda_stream_order.h"
#include "brim/memory/stream.h"
#include "brim/tests/support/cuda_emulator/threads.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

using namespace brim;
namespace emulator = brim::cuda::emulator;

namespace {

constexpr int64_t kBytes = 3 << 20;

const cuda::Stream& stream(int number) { return cuda::numbered_stream(Device::cuda(), number); }

memory::Block ask(memory::Account& account, int number) {
  memory::StreamScope scope(number);
  return account.allocate(kBytes, memory::Category::other);
}

void fill(const memory::Block& block, int byte, int number) {
  emulator::enqueue(stream(number).handle(),
                    [to = block.address(), byte] { std::memset(to, byte, kBytes); });
}

}  // namespace

TEST_CASE("cuda streams: bytes that another stream takes over are not written before it is done") {
  auto* copy = static_cast<char*>(cuda::allocate_pinned(Device::cuda(), kBytes));
  for (auto others : {emulator::OtherStreams::stay, emulator::OtherStreams::run_ahead})
    for (int first : {0, 1}) {
      CAPTURE(first);
      memory::Account account(Device::cuda(), memory::cuda_source(Device::cuda()),
                              memory::planner_named("caching"));
      account.set_cap(4 << 20);
      emulator::LateScope late(others);
      const memory::Block before = ask(account, first);
      void* const address = before.address();
      fill(before, 1, first);
      cuda::enqueue_copy(stream(first), copy, address, kBytes, cuda::CopyKind::to_host);
      account.release(before);
      const memory::Block after = ask(account, 1 - first);
      REQUIRE(after.address() == address);
      CHECK(emulator::work_left() == 2);  // the host did not wait
      fill(after, 2, 1 - first);
      stream(1 - first).synchronize();
      stream(first).synchronize();
      CHECK(copy[kBytes - 1] == 1);
      CHECK(static_cast<const char*>(address)[kBytes - 1] == 2);
      account.release(after);
    }
  cuda::free_pinned(Device::cuda(), copy);
}

TEST_CASE("cuda streams: bytes go back to the driver when the stream that used them is done") {
  auto source = std::make_unique<memory::CudaSource>(cuda::driver_of(Device::cuda()),
                                                     memory::CudaSourceOptions{.in_stream = true});
  source->set_stream_order(std::make_shared<memory::CudaStreamOrder>(Device::cuda()));
  memory::Account account(Device::cuda(), std::move(source), memory::planner_named("direct"));
  emulator::LateScope late;
  const memory::Block block = ask(account, 1);
  fill(block, 1, 1);
  cuda::Event filled(Device::cuda());
  filled.record(stream(1));
  CHECK(!filled.is_done());
  account.release(block);
  CHECK(filled.is_done());
}

#else

TEST_CASE("cuda streams: bytes that go from one stream to another") {
  MESSAGE("skipped: streams that run apart (no emulated GPU)");
}

#endif
