#include "brim/apps/support/train_trace.h"

#include <fmt/format.h>

#include "brim/io/atomic_file.h"
#include "brim/memory/report/chrome_trace.h"
#include "brim/memory/report/html.h"

namespace brim::apps {
namespace {

constexpr int64_t kSteps = 3;  // the first, and two that have caches and pages warm

}  // namespace

void check_trace_file(const std::string& path) {
  expect<ValueError>(path.ends_with(".html") || path.ends_with(".json"), "flags",
                     "--trace writes .html or .json, got '{}'", path);
  io::check_writable(path, "trace");
}

RunTrace::RunTrace(const TrainFlags& flags, const MemoryPlan& plan,
                   std::shared_ptr<memory::Account> account)
    : flags_(flags), plan_(plan), account_(std::move(account)) {
  if (!flags.trace.empty()) recorder_.emplace(account_);
}

void RunTrace::step() {
  if (++steps_ == kSteps) finish();
}

void RunTrace::finish() {
  if (!recorder_) return;
  memory::Trace trace = recorder_->take();
  recorder_.reset();
  memory::AccountStats stats = account_->stats();
  const memory::Trace& planned = plan_.training.trace;
  std::string text;
  if (flags_.trace.ends_with(".json")) {
    text = memory::chrome_trace(trace);
  } else {
    memory::PageOptions page{
        .title = "Memory of a training run",
        .subtitle = {fmt::format("{}, {}x{}, batch {}, {} planner, the first {} updates",
                                 flags_.model, flags_.size, flags_.size, flags_.batch,
                                 flags_.planner, kSteps)},
        .budget = flags_.budget,
        .predicted_peak_live = plan_.predicted.peak_live,
        .predicted_peak_reserved = plan_.predicted.peak_reserved,
        .measured_peak_live = stats.peak_live,
        .measured_peak_reserved = stats.peak_reserved};
    if (const auto& plan = plan_.training.plan) {
      page.offsets = memory::offsets_in(*plan, planned);
      page.arena_bytes = plan->arena_bytes;
    }
    page.measured = &trace;
    text = memory::html_page(planned, page);
  }
  io::write_file(flags_.trace, text, "trace");
}

}  // namespace brim::apps
