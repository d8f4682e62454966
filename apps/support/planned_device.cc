#include "brim/apps/support/planned_device.h"

#include <fmt/ranges.h>

#include <vector>

#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/nearest.h"
#include "brim/apps/support/device_flag.h"
#include "brim/memory/cuda_source.h"
#include "brim/memory/gpu_memory.h"
#include "brim/ops/cuda/warm_up.h"

namespace brim::apps {
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

/// That libraries will compute in.
std::vector<Dtype> types_of(const TrainFlags& flags) {
  std::vector<Dtype> types{Dtype::float32};
  if (flags.precision_text == "bf16" || flags.precision_text == "auto")
    types.push_back(Dtype::bfloat16);
  if (flags.precision_text == "f16") types.push_back(Dtype::float16);
  return types;
}

PlannedGpu open_gpu(const TrainFlags& flags) {
  if (const std::string text = cuda::kernels_to_compile(flags.device); !text.empty())
    fmt::print(stderr, "{}\n", text);
  const cuda::Context& context =
      cuda::open_context(flags.device, [&] { cuda::warm_up(flags.device, types_of(flags)); });
  if (!context.kernels_failure.empty())
    fmt::print(stderr,
               "warning: some kernels are loaded only as they first run, beyond what is budgeted "
               "({})\n",
               context.kernels_failure);
  const memory::GpuMemory memory = memory::gpu_memory(flags.device, /*reserved=*/0);
  return {.bytes = memory.free + memory.context,
          .context = memory.context,
          .context_is_known = memory.context_is_measured,
          .use = to_string(memory)};
}

}  // namespace

void check_device_name(const std::string& name) {
  if (is_device(name))
    parse_device(name);
  else
    card_named(name);
}

std::string card_names() {
  std::vector<std::string_view> names;
  for (const Card& card : cards()) names.push_back(card.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

StandIn take_planned_device(TrainFlags& flags) {
  if (!is_device(flags.device_name)) {
    const Card& card = card_named(flags.device_name);
    flags.device = Device::cuda();
    flags.gpu = PlannedGpu{
        .bytes = card.memory, .context = card.context, .context_is_known = true, .card = &card};
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
  if (flags.device.is_cuda()) flags.gpu = open_gpu(flags);
  return stand_in_for(flags.device);
}

bool has_lost_memory(TrainFlags& flags, int64_t planned) {
  if (!flags.gpu) return false;
  const memory::GpuMemory now = memory::gpu_memory(flags.device, /*reserved=*/0);
  flags.gpu->bytes = std::min(flags.gpu->bytes, now.free + now.context);
  return planned > flags.limit();
}

Json context_bytes(const TrainFlags& flags) {
  if (!flags.gpu || !flags.gpu->context_is_known) return nullptr;
  return flags.gpu->context;
}

std::unique_ptr<memory::Source> source_for(const TrainFlags& flags) {
  if (!flags.device.is_cuda()) return std::make_unique<memory::HostSource>(flags.limit());
  std::unique_ptr<memory::Source> source = memory::cuda_source(flags.device);
  source->set_capacity(std::min(source->capacity(), flags.limit()));
  return source;
}

}  // namespace brim::apps
