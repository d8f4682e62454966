#include "brim/train/cards.h"

#include <algorithm>
#include <array>

#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/driver.h"
#include "brim/base/error.h"
#include "brim/base/gpu_description.h"
#include "brim/ops/cuda/warm_up.h"

namespace brim {
namespace {

// What a GPU's physical memory comes in, on all of them (cuMemGetAllocationGranularity).
constexpr int64_t kPage = int64_t{2} << 20;

constexpr double kPcie3 = 12e9, kPcie4 = 25e9, kPcie5 = 50e9;

constexpr Card card(std::string_view name, double gib, int64_t context_mib, double float32_tflops,
                    double half_tflops, double gigabytes_per_second, double host) {
  return {.name = name,
          .memory = static_cast<int64_t>(gib * 1024) << 20,
          .context = context_mib << 20,
          .float32_flops = float32_tflops * 1e12,
          .half_flops = half_tflops * 1e12,
          .bytes_per_second = gigabytes_per_second * 1e9,
          .host_bytes_per_second = host};
}

// GiB as CUDA reports them, MiB of context, TFLOP/s in float32 and in halves, GB/s, PCIe. Cards for
// servers are the SXM variant where there is one.
constexpr std::array kCards{
    card("t4-16gb", 14.56, 350, 8.1, 65, 320, kPcie3),
    card("a10-24gb", 22.0, 400, 31.2, 125, 600, kPcie4),
    card("a40-48gb", 44.4, 400, 37.4, 149.7, 696, kPcie4),
    card("a6000-48gb", 47.5, 400, 38.7, 154.8, 768, kPcie4),
    card("a100-40gb", 39.3, 500, 19.5, 312, 1555, kPcie4),
    card("a100-80gb", 79.1, 500, 19.5, 312, 2039, kPcie4),
    card("l4-24gb", 21.9, 450, 30.3, 121, 300, kPcie4),
    card("l40s-48gb", 44.3, 450, 91.6, 362, 864, kPcie4),
    card("h100-80gb", 79.1, 600, 67, 989, 3350, kPcie5),
    card("h200-141gb", 139.8, 600, 67, 989, 4800, kPcie5),
    card("b200-180gb", 178.3, 700, 75, 2250, 8000, kPcie5),
    card("rtx2080ti-11gb", 10.7, 350, 13.4, 53.8, 616, kPcie3),
    card("rtx3060-12gb", 11.7, 400, 12.7, 25.5, 360, kPcie4),
    card("rtx3070-8gb", 7.7, 400, 20.3, 40.6, 448, kPcie4),
    card("rtx3080-10gb", 9.7, 400, 29.8, 59.5, 760, kPcie4),
    card("rtx3090-24gb", 23.6, 400, 35.6, 71.2, 936, kPcie4),
    card("rtx4060-8gb", 7.6, 450, 15.1, 30.2, 272, kPcie4),
    card("rtx4070-12gb", 11.7, 450, 29.1, 58.3, 504, kPcie4),
    card("rtx4080-16gb", 15.6, 450, 48.7, 97.5, 717, kPcie4),
    card("rtx4090-24gb", 23.6, 450, 82.6, 165.2, 1008, kPcie4),
    card("rtx5070-12gb", 11.6, 500, 30.9, 61.7, 672, kPcie5),
    card("rtx5080-16gb", 15.5, 500, 56.3, 112.6, 960, kPcie5),
    card("rtx5090-32gb", 31.3, 500, 104.8, 209.5, 1792, kPcie5),
};

}  // namespace

std::span<const Card> cards() { return kCards; }

const Card* find_card(std::string_view name) {
  auto found = std::ranges::find(kCards, name, &Card::name);
  return found == kCards.end() ? nullptr : &*found;
}

const Card& typical_card() { return *find_card("a100-40gb"); }

DeviceSpeed speed_of(const Card& card, Dtype precision) {
  return {.flops_per_second = is_low_precision(precision) ? card.half_flops : card.float32_flops,
          .bytes_per_second = card.bytes_per_second,
          .host_bytes_per_second = card.host_bytes_per_second};
}

StandIn stand_in_for(const Card& card) {
  expect<DeviceError>(cuda::built(), "device",
                      "a plan for {} asks the kernels for GPUs what scratch they take, and {}",
                      card.name, cuda::why_no_device());
  return {.device = Device::cuda(),
          .is_here = false,
          .description = gpu_description(card.name),
          .page_bytes = kPage};
}

StandIn stand_in_for(Device device) {
  if (!device.is_cuda()) return {};
  cuda::require_device("device", device);
  // Measured as a whole only if nobody opened it before.
  cuda::open_context(device, [device] {
    cuda::warm_up(device, std::array{Dtype::float32, Dtype::float16, Dtype::bfloat16});
  });
  int64_t page = 0;
  // Without virtual memory, cudaMalloc has pages of its own, which nobody is told.
  return cuda::driver_of(device)->granularity(&page) == 0
             ? StandIn{.device = device, .page_bytes = page}
             : StandIn{.device = device};
}

}  // namespace brim
