#include "brim/memory/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "brim/base/bytes.h"
#include "brim/memory/gpu_memory.h"
#include "brim/memory/host_memory.h"

namespace brim::memory {
namespace {

/// Lines of a name, a number and maybe its peak.
class Table {
 public:
  explicit Table(std::string title) : text_(std::move(title)) {}
  void add(std::string_view name, int64_t now) {
    text_ += fmt::format("\n  {:<14} {:>12}", name, format_bytes(now));
  }
  void add(std::string_view name, int64_t now, int64_t peak) {
    add(name, now);
    text_ += fmt::format("   at peak {:>12}", format_bytes(peak));
  }
  void add_line(const std::string& line) { text_ += "\n  " + line; }
  std::string text() const { return text_ + '\n'; }

 private:
  std::string text_;
};

void add_account(Table& table, const AccountStats& s, int64_t cap) {
  if (cap != Source::kUnlimited) table.add("limit", cap);
  table.add("reserved", s.reserved, s.peak_reserved);
  table.add("live", s.live, s.peak_live);
  for (size_t i = 0; i < kCategories; ++i)
    if (s.by_category[i] != 0 || s.by_category_at_peak[i] != 0)
      table.add(kCategoryNames[i], s.by_category[i], s.by_category_at_peak[i]);
  table.add("cached", s.cached);
  table.add("fragmented", s.fragmented);
}

void add_process(Table& table, int64_t reserved) {
  ResidentMemory process = resident_memory();
  if (process.now == 0) return;  // the system does not tell
  table.add("process", process.now, process.peak);
  int64_t outside = process.now - reserved;
  table.add_line(
      outside >= 0
          ? fmt::format("outside the account: {} (the program, its libraries, its other data)",
                        format_bytes(outside))
          : fmt::format("outside the account: unknown; {} or more of what is reserved was never "
                        "touched",
                        format_bytes(-outside)));
}

void add_gpu(Table& table, Device device, int64_t reserved) {
  const GpuMemory memory = gpu_memory(device, reserved);
  table.add("device", memory.total - memory.free);
  table.add("context", memory.context);
  table.add_line(
      fmt::format("outside the account: {} of {} ({}other programs)",
                  format_bytes(memory.context + memory.others), format_bytes(memory.total),
                  memory.context_is_measured ? "the context and "
                                             : "the context, which was not measured, and "));
}

}  // namespace

int64_t memory_allocated(Device device) { return account(device)->stats().live; }
int64_t max_memory_allocated(Device device) { return account(device)->stats().peak_live; }
int64_t memory_reserved(Device device) { return account(device)->stats().reserved; }
int64_t max_memory_reserved(Device device) { return account(device)->stats().peak_reserved; }
void reset_peak(Device device) { account(device)->reset_peak(); }

std::string memory_summary(Device device) {
  auto ledger = account(device);
  AccountStats stats = ledger->stats();
  Table table(fmt::format("{} memory, {} planner", to_string(device), ledger->planner_name()));
  add_account(table, stats, ledger->cap());
  if (device.is_cpu()) add_process(table, stats.reserved);
  if (device.is_cuda()) add_gpu(table, device, stats.reserved);
  return table.text();
}

std::vector<BufferInfo> memory_snapshot(const Account& account) {
  std::vector<BufferInfo> buffers;
  account.for_each_live([&](const LiveBuffer& buffer) { buffers.push_back(buffer); });
  std::ranges::sort(buffers, [](const BufferInfo& a, const BufferInfo& b) {
    return std::tuple(-a.bytes, a.id) < std::tuple(-b.bytes, b.id);
  });
  return buffers;
}

std::vector<BufferInfo> memory_snapshot(Device device) { return memory_snapshot(*account(device)); }

std::string describe(std::span<const BufferInfo> buffers, size_t most) {
  int64_t bytes = 0;
  for (const BufferInfo& buffer : buffers) bytes += buffer.bytes;
  std::string text = fmt::format("{} ({} bytes) in {} buffer{}:", format_bytes(bytes), bytes,
                                 buffers.size(), buffers.size() == 1 ? "" : "s");
  for (const BufferInfo& buffer : buffers.first(std::min(most, buffers.size())))
    text += "\n  " + to_string(buffer);
  if (buffers.size() > most) text += fmt::format("\n  and {} more", buffers.size() - most);
  return text;
}

}  // namespace brim::memory
