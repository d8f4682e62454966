#include "brim/core/launch.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/last_op.h"
#include "brim/base/cuda/ranges.h"
#include "brim/base/cuda/stream.h"
#include "brim/base/flush_denormals.h"
#include "brim/base/gathered.h"
#include "brim/base/stand_in.h"
#include "brim/core/call_list.h"
#include "brim/core/cuda/register.h"
#include "brim/core/kernels.h"
#include "brim/core/slow_launches.h"
#include "brim/core/widened.h"

namespace brim {
namespace {

using Key = std::tuple<std::string_view, DeviceType, Dtype>;

class KernelTable {
 public:
  static KernelTable& get() {
    static auto* table = new KernelTable;
    return *table;
  }
  void add(const Key& key, detail::TableEntry entry) {
    std::lock_guard lock(mutex_);
    auto [name, device, dtype] = key;
    if (!entries_.emplace(key, entry).second)
      raise<ValueError>(name, "a kernel of this name for {} on {} is in the table already", dtype,
                        device);
  }
  const detail::TableEntry* find(const Key& key) const {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, detail::TableEntry> entries_;
};

const detail::TableEntry* find_entry(std::string_view name, DeviceType device, Dtype dtype) {
  static const bool ready =
      (register_core_kernels(), register_draw_kernels(), cuda::register_core_kernels(), true);
  (void)ready;
  return KernelTable::get().find({name, device, dtype});
}

View view_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {true, tensor.data(), tensor.dtype(), tensor.shape(), tensor.strides()};
}

/// Most kernels have a handful of buffers: views live on the stack.
class Views {
 public:
  explicit Views(std::span<const Tensor> tensors) {
    if (tensors.size() > kInPlace) many_.resize(tensors.size());
    size_ = tensors.size();
    for (size_t i = 0; i < size_; ++i) (*this)[i] = view_of(tensors[i]);
  }
  View& operator[](size_t i) { return many_.empty() ? few_[i] : many_[i]; }
  std::span<const View> span() const { return {many_.empty() ? few_ : many_.data(), size_}; }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kInPlace = 10;
  View few_[kInPlace];
  std::vector<View> many_;
  size_t size_ = 0;
};

/// Scratch from the account for the time of one launch.
class Scratch {
 public:
  Scratch(Device device, int64_t bytes) {
    if (bytes == 0) return;
    account_ = memory::account(device);
    block_ = account_->allocate(bytes, memory::Category::scratch);
  }
  ~Scratch() {
    if (account_) account_->release(block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return block_.address(); }

 private:
  std::shared_ptr<memory::Account> account_;
  memory::Block block_;
};

thread_local LaunchObserverScope* observers = nullptr;

Device device_of(const detail::Invocation& invocation) {
  for (std::span<const Tensor> tensors : {invocation.out, invocation.in})
    for (const Tensor& tensor : tensors)
      if (tensor.defined()) return tensor.device();
  raise<InternalError>(invocation.name, "launched without buffers");
}

void require_one_device(const detail::Invocation& invocation, Device device) {
  for (std::span<const Tensor> tensors : {invocation.in, invocation.out})
    for (const Tensor& tensor : tensors)
      if (tensor.defined() && tensor.device() != device)
        raise<DeviceError>(invocation.name, "expected all tensors on {}, got one on {}", device,
                           tensor.device());
}

int64_t scratch_bytes(const detail::Invocation& invocation, const detail::TableEntry& entry,
                      const KernelCall& call) {
  return entry.scratch == nullptr ? 0
                                  : invocation.scratch(entry.scratch, call, invocation.attributes);
}

/// For finding faults: what a kernel did wrong is told by a call that waits, long after it.
void wait_if_asked(const detail::Invocation& invocation, Device device) {
  static const bool asked = [] {
    const char* value = std::getenv("BRIM_CUDA_WAIT");
    return value != nullptr && std::string_view(value) == "1";
  }();
  if (!asked) return;
  start_gathered();
  try {
    cuda::numbered_stream(device, memory::current_stream()).synchronize();
  } catch (const DeviceError& error) {
    raise<DeviceError>(invocation.name, "a kernel of it failed on {}: {}", device, error.what());
  }
}

void note_enqueued(const detail::Invocation& invocation, Device device) {
  cuda::last_op = {invocation.name, memory::current_site().module};
  wait_if_asked(invocation, device);
}

/// A launch by itself: without the tensors, with views and attributes of its own.
struct KeptLaunch {
  KeptLaunch(const detail::Invocation& launched, const KernelCall& views)
      : attributes(launched.keep(launched.attributes)),
        in(views.in.begin(), views.in.end()),
        out(views.out.begin(), views.out.end()),
        invocation(launched),
        call(views) {
    invocation.in = invocation.out = {};
    invocation.attributes = attributes.get();
    call.in = in;
    call.out = out;
  }
  KeptLaunch(const KeptLaunch&) = delete;
  KeptLaunch& operator=(const KeptLaunch&) = delete;

  std::shared_ptr<const void> attributes;
  std::vector<View> in, out;
  detail::Invocation invocation;
  KernelCall call;
};

/// Where the CPU's calls are being recorded.
CallRecording* recording_on(Device device) {
  return device.is_cpu() ? CallRecording::current() : nullptr;
}

void run_native(const detail::Invocation& invocation, const detail::TableEntry& entry,
                KernelCall call) {
  Scratch scratch(call.device, scratch_bytes(invocation, entry, call));
  if (call.device.is_meta()) return;
  call.scratch = scratch.data();
  if (CallRecording* recording = recording_on(call.device))
    return recording->add([kept = std::make_shared<KeptLaunch>(invocation, call), run = entry.run] {
      kept->invocation.run(run, kept->call, kept->invocation.attributes);
    });
  invocation.run(entry.run, call, invocation.attributes);
  if (call.device.is_cuda()) note_enqueued(invocation, call.device);
}

/// Where `call` runs.
void convert_view(const View& from, const View& to, KernelCall call) {
  const detail::TableEntry* copy = find_entry(kernel::copy.name, call.device.type, to.dtype);
  check(copy != nullptr, "the copy kernel is in the table");
  call.in = {&from, 1};
  call.out = {&to, 1};
  reinterpret_cast<KernelFn<NoAttributes>>(copy->run)(call, {});
}

void perform_widened(const detail::Invocation& invocation, const detail::TableEntry& entry,
                     const KernelCall& call, Widened& widened, void* scratch) {
  widened.run(
      scratch, [&](const View& from, const View& to) { convert_view(from, to, call); },
      [&](const KernelCall& inner) { invocation.run(entry.run, inner, invocation.attributes); });
}

/// The float32 kernel between widened copies of the low-precision buffers.
void run_widened(const detail::Invocation& invocation, const detail::TableEntry& entry,
                 const KernelCall& call) {
  CallRecording* recording = recording_on(call.device);
  const auto kept = recording == nullptr ? nullptr : std::make_shared<KeptLaunch>(invocation, call);
  Widened widened(kept == nullptr ? call : kept->call, invocation.dtype, invocation.updates,
                  invocation.by_rows,
                  [&](const KernelCall& inner) { return scratch_bytes(invocation, entry, inner); });
  Scratch scratch(call.device, widened.scratch_bytes());
  if (call.device.is_meta()) return;
  if (recording != nullptr)
    return recording->add([kept, widened, entry, scratch = scratch.data()]() mutable {
      perform_widened(kept->invocation, entry, kept->call, widened, scratch);
    });
  perform_widened(invocation, entry, call, widened, scratch.data());
  if (!call.device.is_cuda()) return;
  note_slow_launch(invocation.name, "widened to float32");
  note_enqueued(invocation, call.device);
}

/// The kernel for the very dtype of the call, if there is one that takes it.
const detail::TableEntry* native_entry(const detail::Invocation& invocation,
                                       const KernelCall& call) {
  const detail::TableEntry* entry =
      find_entry(invocation.name, device_meant(call.device).type, invocation.dtype);
  if (entry == nullptr || entry->suits == nullptr) return entry;
  return invocation.suits(entry->suits, call, invocation.attributes) ? entry : nullptr;
}

bool is_widened(const detail::Invocation& invocation, const KernelCall& call) {
  return is_low_precision(invocation.dtype) && native_entry(invocation, call) == nullptr;
}

void run(const detail::Invocation& invocation, const KernelCall& call) {
  if (const detail::TableEntry* entry = native_entry(invocation, call))
    return run_native(invocation, *entry, call);
  const detail::TableEntry* entry = nullptr;
  if (is_low_precision(invocation.dtype))
    entry = find_entry(invocation.name, device_meant(call.device).type, Dtype::float32);
  expect<DtypeError>(entry != nullptr, invocation.name, "has no kernel for {} on {}",
                     invocation.dtype, device_meant(call.device));
  run_widened(invocation, *entry, call);
}

}  // namespace

void detail::add_kernel(std::string_view name, DeviceType device, Dtype dtype, TableEntry entry) {
  KernelTable::get().add({name, device, dtype}, entry);
}

void detail::launch(const Invocation& invocation) {
  Device device = device_of(invocation);
  require_one_device(invocation, device);
  Views in(invocation.in), out(invocation.out);
  KernelCall call{.in = in.span(), .out = out.span(), .device = device};
  LaunchEvent event{invocation.name, invocation.updates, in.span(), out.span()};
  if (observers != nullptr) start_gathered();  // the work of those before
  if (observers != nullptr && is_widened(invocation, call)) event.widened = invocation.dtype;
  for (auto* scope = observers; scope != nullptr; scope = scope->before_)
    scope->observer_.launched(event);
  cuda::DeviceScope scope(device);
  if (device.is_cuda())
    call.stream = cuda::numbered_stream(device, memory::current_stream()).handle();
  std::optional<cuda::NamedRange> range;
  if (device.is_cuda() && cuda::names_are_seen()) {
    const std::string where = to_string(memory::current_site());
    range.emplace(where.empty() ? invocation.name : where.c_str());
  }
  try {
    const FlushDenormals flush;
    run(invocation, call);
  } catch (const cuda::AllocationError&) {
    memory::raise_library_shortage(device);
  }
  for (const Tensor& tensor : invocation.out)
    if (tensor.defined()) tensor.storage()->note_write(invocation.name);
  if (observers != nullptr) start_gathered();  // each with its own work
  for (auto* scope = observers; scope != nullptr; scope = scope->before_)
    scope->observer_.finished();
}

bool has_kernel(std::string_view name, DeviceType device, Dtype dtype) {
  return find_entry(name, device, dtype) != nullptr;
}

LaunchObserverScope::LaunchObserverScope(LaunchObserver& observer)
    : observer_(observer), before_(observers) {
  observers = this;
}

LaunchObserverScope::~LaunchObserverScope() { observers = before_; }

}  // namespace brim
