#include "brim/ops/cudnn_benchmark.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace brim {
namespace {

constexpr int kRounds = 5;

std::atomic<bool> is_on = false;
thread_local EngineTimingScope* current_scope = nullptr;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void set_cudnn_benchmark(bool on) { is_on = on; }

bool cudnn_benchmark() { return is_on; }

// Round by round and not one candidate after the other: a GPU that changes its clock meanwhile does
// so to all of them. The first round loads their code.
std::optional<size_t> fastest_engine(size_t candidates, const EngineTimer& timer) {
  if (candidates == 1) return 0;
  std::vector<std::vector<double>> seconds(candidates);
  std::vector<bool> runs(candidates, true);
  for (int round = -1; round < kRounds; ++round)
    for (size_t i = 0; i < candidates; ++i) {
      if (!runs[i]) continue;
      const std::optional<double> time = timer(i);
      runs[i] = time.has_value();
      if (time && round >= 0) seconds[i].push_back(*time);
    }
  std::optional<size_t> best;
  double least = 0;
  for (size_t i = 0; i < candidates; ++i) {
    if (!runs[i]) continue;
    const double time = median(std::move(seconds[i]));
    if (best && time >= least) continue;
    best = i;
    least = time;
  }
  return best;
}

EngineTimingScope::EngineTimingScope(memory::Source& source)
    : source_(source), before_(std::exchange(current_scope, this)) {}

EngineTimingScope::~EngineTimingScope() { current_scope = before_; }

EngineTimingScope* EngineTimingScope::current() { return current_scope; }

}  // namespace brim
