// The account of each device, and those that are made by name.
#include <map>
#include <mutex>
#include <utility>

#include "brim/base/error.h"
#include "brim/base/nearest.h"
#include "brim/memory/account.h"
#include "brim/memory/caching_planner.h"
#include "brim/memory/cuda_source.h"
#include "brim/memory/direct_planner.h"
#include "brim/memory/live_at_exit.h"

namespace brim::memory {

MakePlanner planner_named(const std::string& name) {
  if (name == "direct") return direct_planner;
  if (name == "caching")
    return [](Source& source) { return std::make_unique<CachingPlanner>(source); };
  const std::vector<std::string> known{"direct", "caching"};
  raise<ValueError>("planner", "expected direct or caching, got '{}'{}", name,
                    did_you_mean(name, known));
}

namespace {

std::shared_ptr<Account> caching_account(Device device, std::unique_ptr<Source> source) {
  return std::make_shared<Account>(device, std::move(source), planner_named("caching"));
}

std::shared_ptr<Account>& gpu_slot(Device device) {
  static std::mutex mutex;
  static auto* accounts = new std::map<int, std::shared_ptr<Account>>;
  std::lock_guard lock(mutex);
  auto found = accounts->find(device.index);
  if (found == accounts->end()) {
    auto made = std::make_shared<Account>(device, cuda_source(device),
                                          planner_named(asks_for_each() ? "direct" : "caching"));
    found = accounts->emplace(device.index, report_at_exit_if_asked(std::move(made))).first;
  }
  return found->second;
}

std::shared_ptr<Account>& slot(Device device) {
  // Never destroyed: tensors may outlive every static object.
  static auto* cpu = new auto(
      report_at_exit_if_asked(caching_account(Device::cpu(), std::make_unique<HostSource>())));
  static auto* meta = new auto(caching_account(Device::meta(), std::make_unique<NullSource>()));
  switch (device.type) {
    case DeviceType::cpu:
      return *cpu;
    case DeviceType::meta:
      return *meta;
    case DeviceType::cuda:
      return gpu_slot(device);
  }
  raise<InternalError>("memory", "unknown device {}", device);
}

}  // namespace

std::shared_ptr<Account> account(Device device) { return slot(device); }

AccountScope::AccountScope(std::shared_ptr<Account> account) : before_(std::move(account)) {
  std::swap(slot(before_->device()), before_);
}

AccountScope::~AccountScope() { std::swap(slot(before_->device()), before_); }

std::shared_ptr<Account> capped_host_account(const std::string& planner, int64_t capacity) {
  return std::make_shared<Account>(Device::cpu(), std::make_unique<HostSource>(capacity),
                                   planner_named(planner));
}

void raise_library_shortage(Device device) { account(device)->raise_library_shortage(); }

}  // namespace brim::memory
