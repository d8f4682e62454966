#include "brim/examples/support/planned_device.h"

#include <fmt/ranges.h>

#include <vector>

#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/nearest.h"
#include "brim/examples/support/device_flag.h"
#include "brim/memory/cuda_source.h"

namespace brim::examples {
namespace {

bool is_device(const std::string& name) {
  return name == "cpu" || name == "meta" || name == "cuda" || name.starts_with("cuda:");
}

const Card& card_named(const std::string& name) {
  if (const Card* card = find_card(name)) return *card;
  std::vector<std::string> known{"cpu", "cuda"};
  for (const Card& card : cards()) known.emplace_back(card.name);
  raise<DeviceError>("device", "expected cpu, cuda, cuda:N or a card ({} to {}), got '{}'{}",
                     cards().front().name, cards().back().name, name, did_you_mean(name, known));
}

}  // namespace

std::string card_names() {
  std::vector<std::string_view> names;
  for (const Card& card : cards()) names.push_back(card.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

StandIn take_planned_device(TrainFlags& flags) {
  if (!is_device(flags.device_name)) {
    const Card& card = card_named(flags.device_name);
    flags.device = Device::cuda();
    flags.gpu = PlannedGpu{.bytes = card.memory, .context = card.context, .card = &card};
    return stand_in_for(card);
  }
  if (std::string why = cuda::why_no_device();
      !why.empty() && parse_device(flags.device_name).is_cuda())
    raise<DeviceError>("device",
                       "--device {} cannot plan: {}; for a card that is not here, name it: {}",
                       flags.device_name, why, "h100-80gb");
  return take_device(flags, "plan");
}

StandIn take_device(TrainFlags& flags, const char* purpose) {
  flags.device = device_for(flags.device_name, purpose);
  if (flags.device.is_cuda()) {
    const int64_t context = cuda::open_context(flags.device).bytes;
    flags.gpu =
        PlannedGpu{.bytes = cuda::memory_info(flags.device).free + context, .context = context};
  }
  return stand_in_for(flags.device);
}

std::unique_ptr<memory::Source> source_for(const TrainFlags& flags) {
  if (!flags.device.is_cuda()) return std::make_unique<memory::HostSource>(flags.limit());
  std::unique_ptr<memory::Source> source = memory::cuda_source(flags.device);
  source->set_capacity(std::min(source->capacity(), flags.limit()));
  return source;
}

}  // namespace brim::examples
