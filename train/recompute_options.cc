#include "brim/train/recompute_options.h"

#include <fmt/core.h>

#include "brim/autograd/dynamic_eviction.h"
#include "brim/autograd/free_recomputation.h"

namespace brim {
namespace {

// FNV-1a, of Fowler, Noll and Vo.
uint64_t hash_of(const autograd::Fates& fates) {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const auto& call : fates) {
    for (autograd::Fate fate : call) add(static_cast<uint64_t>(fate));
    add(255);
  }
  return hash;
}

}  // namespace

RecomputeOptions free_recomputation() {
  return {"free", [] { return std::make_unique<autograd::FreeRecomputation>(); }};
}

RecomputeOptions segmented_recomputation(int64_t segments, int64_t calls) {
  autograd::SegmentedRecomputation(segments, calls);  // throws now rather than in a step
  return {fmt::format("{} segments of {} calls", segments, calls),
          [=] { return std::make_unique<autograd::SegmentedRecomputation>(segments, calls); }};
}

RecomputeOptions planned_recomputation(std::shared_ptr<const autograd::Fates> fates,
                                       double wait_seconds) {
  std::string name = fmt::format("planned {:016x}", hash_of(*fates));
  auto make_policy = [fates] { return std::make_unique<autograd::PlannedRecomputation>(fates); };
  return {std::move(name), std::move(make_policy), wait_seconds, std::move(fates)};
}

RecomputeOptions dynamic_eviction(int64_t budget) {
  const autograd::DynamicEvictionOptions options{.budget = budget};
  autograd::DynamicEviction{options};  // throws now rather than in a step
  return {fmt::format("dynamic within {} bytes", budget),
          [=] { return std::make_unique<autograd::DynamicEviction>(options); }};
}

}  // namespace brim
