// Who holds a GPU's memory, on an emulated one where others take some; and the line that says it.
#include "brim/memory/gpu_memory.h"

#include <doctest/doctest.h>

using namespace brim;

TEST_CASE("gpu memory: the line names each holder, and a context that was not measured") {
  memory::GpuMemory memory{.total = int64_t{4} << 30,
                           .free = int64_t{3} << 30,
                           .reserved = 0,
                           .context = 512 << 20,
                           .context_is_measured = true,
                           .others = 400 << 20};
  CHECK(to_string(memory) ==
        "4 GiB in all, 3 GiB free, 0 B reserved, context 512 MiB, others 400 MiB");
  memory.context_is_measured = false;
  CHECK(to_string(memory) ==
        "4 GiB in all, 3 GiB free, 0 B reserved, context, which was not "
        "measured, and others 400 MiB");
}

#ifdef BRIM_EMULATED_GPU

#include "brim/core/tensor.h"
#include "brim/memory/account.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

TEST_CASE("gpu memory: what is free, the account's and others' make up the whole") {
  const Tensor x = zeros({1 << 20}, {.device = Device::cuda()});
  const memory::GpuMemory before = memory::gpu_memory(Device::cuda());
  CHECK(before.context_is_measured);
  CHECK(before.reserved >= 4 << 20);
  CHECK(before.reserved == memory::account(Device::cuda())->stats().reserved);
  cuda::emulator::set_others(3 << 20);
  const memory::GpuMemory now = memory::gpu_memory(Device::cuda());
  const memory::GpuMemory without = memory::gpu_memory(Device::cuda(), 0);
  cuda::emulator::set_others(0);
  CHECK(now.total == before.total);
  CHECK(now.free == before.free - (3 << 20));
  CHECK(now.others == before.others + (3 << 20));
  CHECK(now.free + now.reserved + now.context + now.others == now.total);
  CHECK(without.others == now.others + now.reserved);  // tensors of no account are others'
}

TEST_CASE("gpu memory: others hold nothing where more is told to be reserved than is taken") {
  CHECK(memory::gpu_memory(Device::cuda(), int64_t{1} << 50).others == 0);
}

#else

TEST_CASE("gpu memory: what is whose") {
  MESSAGE("skipped: who holds a GPU's memory (no emulated GPU)");
}

#endif
