#include "brim/train/step_memory.h"

#include "brim/autograd/offload.h"

namespace brim {

StepMemory measure_on_meta(const memory::MakePlanner& planner, const MetaProgram& program,
                           const MeasureOptions& options) {
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(options.capacity), planner);
  memory::AccountScope scope(account);
  const std::shared_ptr<memory::Account> host = autograd::offload_host(Device::meta());
  autograd::OffloadHostScope offloading(host);
  StepMemory result;
  program([&] { result.state = account->stats().live; });
  memory::AccountStats stats = account->stats();
  result.peak_reserved = stats.peak_reserved;
  result.peak_live = stats.peak_live;
  result.at_peak = stats.by_category_at_peak;
  result.host_peak_reserved = host->stats().peak_reserved;
  result.host_peak_live = host->stats().peak_live;
  return result;
}

}  // namespace brim
