#include "brim/autograd/trace_recorder.h"

#include <algorithm>

#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

// Elements along an axis of stride 0 are one and the same.
int64_t distinct_bytes(const View& view) {
  int64_t elements = 1;
  for (int i = 0; i < view.shape.size(); ++i)
    if (view.strides[i] != 0) elements *= view.shape[i];
  return elements * size_of(view.dtype);
}

bool is_of_op(const memory::Site& site) { return site.run != 0 && *site.op != '\0'; }

memory::Origin origin_of(const memory::Site& site) {
  return {site.op, site.path(), site.file, site.line, site.phase};
}

void add_once(std::vector<int64_t>& list, int64_t number) {
  if (std::ranges::find(list, number) == list.end()) list.push_back(number);
}

template <class BytesOf>
int64_t bytes_over(const LaunchEvent& event, const BytesOf& bytes_of) {
  int64_t bytes = 0;
  for (const View& view : event.in)
    if (view.present) bytes += bytes_of(view);
  for (const View& view : event.out)
    if (view.present) bytes += bytes_of(view) * (event.updates ? 2 : 1);
  return bytes;
}

}  // namespace

int64_t bytes_widened(const LaunchEvent& event) {
  constexpr int64_t kWider = sizeof(float) / 2;  // than a half
  return bytes_over(event, [&](const View& view) {
    return view.dtype == event.widened ? kWider * distinct_bytes(view) : 0;
  });
}

int64_t bytes_moved(const LaunchEvent& event) {
  return bytes_over(event, distinct_bytes) + bytes_widened(event);
}

double backward_flops(const Node& node) {
  int wanted = 0, large = 0;
  for (size_t i = 0; i < node.edges.size(); ++i) {
    if (!node.edges[i].wanted()) continue;
    ++wanted;
    if (node.inputs[i].shape.size() > 1) ++large;
  }
  return node.op->flops(node.inputs, node.outputs) * (large > 0 ? large : std::min(wanted, 1));
}

TraceRecorder::TraceRecorder(std::shared_ptr<memory::Account> account)
    : account_(std::move(account)), timed_(!account_->device().is_meta()) {
  account_->for_each_live([&](const memory::LiveBuffer& buffer) { add_buffer(buffer, 0); });
  next_run_ = now() > 0 ? 1 : 0;
  account_->set_recorder(this);
}

TraceRecorder::~TraceRecorder() {
  if (recording_) account_->set_recorder(nullptr);
}

memory::Trace TraceRecorder::take() {
  check(recording_, "a trace is taken once");
  account_->set_recorder(nullptr);
  recording_ = false;
  trace_.end = now();
  for (size_t i = 0; i < trace_.buffers.size(); ++i) {
    memory::TraceBuffer& buffer = trace_.buffers[i];
    buffer.origin = origin_of(buffer_sources_[i].site);
    buffer.shape = memory::to_string(buffer_sources_[i].shape);
  }
  for (const auto& [address, held] : live_)
    trace_.buffers[static_cast<size_t>(held.number)].death = trace_.end;
  for (size_t i = 0; i < trace_.ops.size(); ++i)
    trace_.ops[i].origin = origin_of(op_sources_[i].site);
  for (size_t i : open_sections_) trace_.sections[i].end = trace_.end;
  return std::move(trace_);
}

double TraceRecorder::seconds() const {
  if (!timed_) return 0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void TraceRecorder::add_buffer(const memory::LiveBuffer& buffer, int64_t run) {
  int64_t birth = now();
  trace_.buffers.push_back({.bytes = buffer.bytes,
                            .category = buffer.category,
                            .run = run,
                            .birth = birth,
                            .last_use = birth});
  buffer_sources_.push_back({buffer.site, buffer.shape});
  buffer_sources_.back().site.phase = phase_of(buffer.site);
  live_[static_cast<const char*>(buffer.address)] = {&buffer, birth};
}

int64_t TraceRecorder::run_of(const memory::Site& site) {
  if (site.run == 0) {
    if (!std::exchange(outside_, true)) ++next_run_;
    return next_run_ - 1;
  }
  outside_ = false;
  auto [found, is_new] = runs_.try_emplace(site.run, next_run_);
  if (is_new) ++next_run_;
  return found->second;
}

memory::Phase TraceRecorder::phase_of(const memory::Site& site) const {
  if (site.phase != memory::Phase::other || !in_step_) return site.phase;
  if (open_sections_.empty()) return memory::Phase::update;
  bool updates = trace_.sections[open_sections_.back()].section.kind == memory::SectionKind::update;
  return updates ? memory::Phase::update : site.phase;
}

memory::TraceOp& TraceRecorder::add_op(const memory::Site& site) {
  trace_.ops.push_back(
      {.begin = now(), .end = now(), .begin_seconds = seconds(), .end_seconds = seconds()});
  op_sources_.push_back({site});
  op_sources_.back().site.phase = phase_of(site);
  return trace_.ops.back();
}

memory::TraceOp& TraceRecorder::op_of(const memory::Site& site) {
  auto [found, is_new] = ops_of_runs_.try_emplace(site.run, trace_.ops.size());
  return is_new ? add_op(site) : trace_.ops[found->second];
}

void TraceRecorder::extend(memory::TraceOp& op) const {
  op.end = now();
  op.end_seconds = seconds();
}

void TraceRecorder::allocated(const memory::Block& block) {
  std::lock_guard lock(mutex_);
  const memory::Site& site = block.live->site;
  bool here = std::this_thread::get_id() == thread_;
  if (here && is_of_op(site)) op_of(site);  // which thus begins before the request
  add_buffer(*block.live, run_of(site));
  if (here && launching_ && block.category == memory::Category::scratch)
    touched_.push_back(now() - 1);
}

void TraceRecorder::released(const memory::Block& block) noexcept {
  std::lock_guard lock(mutex_);
  auto found = live_.find(static_cast<const char*>(block.address()));
  if (found == live_.end()) return;
  trace_.buffers[static_cast<size_t>(found->second.number)].death = now();
  live_.erase(found);
}

void TraceRecorder::recategorized(const memory::Block& block, memory::Category) noexcept {
  std::lock_guard lock(mutex_);
  if (int64_t i = held(block); i >= 0)
    trace_.buffers[static_cast<size_t>(i)].category = block.category;
}

/// A parameter or a state learns its name after the request; the phase stays that of the request.
void TraceRecorder::resited(const memory::Block& block) noexcept {
  std::lock_guard lock(mutex_);
  int64_t i = held(block);
  if (i < 0) return;
  memory::Site& site = buffer_sources_[static_cast<size_t>(i)].site;
  memory::Phase phase = site.phase;
  site = block.live->site;
  site.phase = phase;
}

/// In the trace a move is nothing: a buffer goes on with its number.
void TraceRecorder::moved() noexcept {
  std::lock_guard lock(mutex_);
  std::map<const char*, Held> before;
  before.swap(live_);
  while (!before.empty()) {
    auto node = before.extract(before.begin());  // goes on to be used: there may be no heap
    node.key() = static_cast<const char*>(node.mapped().buffer->address);
    live_.insert(std::move(node));
  }
}

int64_t TraceRecorder::held(const memory::Block& block) const {
  auto found = live_.find(static_cast<const char*>(block.address()));
  return found == live_.end() ? -1 : found->second.number;
}

void TraceRecorder::began_step() {
  std::lock_guard lock(mutex_);
  in_step_ = true;
  ++steps_;
}

void TraceRecorder::ended_step() noexcept {
  std::lock_guard lock(mutex_);
  in_step_ = false;
}

void TraceRecorder::began_section(const memory::Section& section) {
  std::lock_guard lock(mutex_);
  open_sections_.push_back(trace_.sections.size());
  trace_.sections.push_back(
      {.section = section, .begin = now(), .end = now(), .step = in_step_ ? steps_ - 1 : -1});
}

void TraceRecorder::ended_section() noexcept {
  std::lock_guard lock(mutex_);
  if (open_sections_.empty()) return;  // it began before the recording
  trace_.sections[open_sections_.back()].end = now();
  open_sections_.pop_back();
}

void TraceRecorder::touch(std::span<const View> views, std::vector<int64_t>& into) {
  for (const View& view : views) {
    if (!view.present || view.numel() == 0) continue;
    const char* address = static_cast<const char*>(view.data);
    auto after = live_.upper_bound(address);
    if (after == live_.begin()) continue;
    const char* begin = std::prev(after)->first;
    const int64_t i = std::prev(after)->second.number;
    memory::TraceBuffer& buffer = trace_.buffers[static_cast<size_t>(i)];
    if (address >= begin + buffer.bytes) continue;  // another account's
    buffer.last_use = now();
    add_once(into, i);
    touched_.push_back(i);
  }
}

void TraceRecorder::launched(const LaunchEvent& event) {
  if (!recording_) return;
  std::lock_guard lock(mutex_);
  memory::Site site = memory::current_site();
  bool of_op = is_of_op(site);
  if (!of_op) site.op = event.kernel;
  memory::TraceOp& op = of_op ? op_of(site) : add_op(site);
  touched_.clear();
  touch(event.in, op.inputs);
  if (event.updates) touch(event.out, op.inputs);
  touch(event.out, op.outputs);
  op.bytes_moved += bytes_moved(event);
  launching_ = true;
  launching_op_ = static_cast<size_t>(&op - trace_.ops.data());
}

void TraceRecorder::finished() {
  if (!recording_) return;
  std::lock_guard lock(mutex_);
  launching_ = false;
  for (int64_t i : touched_) trace_.buffers[static_cast<size_t>(i)].last_use = now();
  extend(trace_.ops[launching_op_]);
}

void TraceRecorder::ran(const OpEvent& event) {
  if (!recording_) return;
  std::lock_guard lock(mutex_);
  memory::TraceOp& op = op_of(memory::current_site());
  op.flops = event.phase == Phase::backward
                 ? backward_flops(*event.node)
                 : event.op.flops(infos_of(event.inputs), infos_of(event.outputs));
  extend(op);
}

}  // namespace brim::autograd
