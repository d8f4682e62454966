#include "brim/tests/support/memory_script.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "brim/base/error.h"
#include "brim/base/random.h"

namespace brim::testing {
namespace {

using memory::Category;
using memory::Phase;
using memory::SectionKind;
using Kind = Action::Kind;

const std::string* interned(const std::string& text) {
  static auto* all = new std::set<std::string>;
  return &*all->insert(text).first;
}

Action drop(int64_t buffer) { return {.kind = Kind::drop, .buffer = buffer}; }

}  // namespace

int64_t ToyTraining::size(int layer, int64_t salt) const {
  uint64_t bits = mix64(static_cast<uint64_t>(seed_ * 1000 + layer * 10 + salt));
  return 64 * (1 + static_cast<int64_t>(bits % 40));
}

int64_t ToyTraining::ask(Script& script, int64_t bytes, Category category) {
  script.push_back({.buffer = ++next_, .bytes = bytes, .category = category});
  latest_.push_back(next_);
  return next_;
}

void ToyTraining::op(Script& script, const char* name, int layer, Phase phase) const {
  script.push_back(
      {.kind = Kind::op, .op = name, .module = "layer" + std::to_string(layer), .phase = phase});
}

Script ToyTraining::setup() {
  Script script;
  for (int layer = 0; layer < layers_; ++layer) {
    int64_t draft = ask(script, size(layer, 0), Category::other);
    ask(script, size(layer, 0), Category::parameters);
    ask(script, size(layer, 0), Category::optimizer);
    script.push_back(drop(draft));
  }
  return script;
}

std::vector<int64_t> ToyTraining::forward(Script& script, int64_t samples, bool keep) {
  std::vector<int64_t> saved{ask(script, samples * size(0, 1), Category::input)};
  for (int layer = 0; layer < layers_; ++layer) {
    op(script, "conv2d", layer, Phase::forward);
    int64_t output = ask(script, samples * size(layer + 1, 1), Category::activations);
    int64_t scratch = ask(script, size(layer, 2), Category::scratch);
    script.push_back(drop(scratch));
    op(script, "relu", layer, Phase::forward);
    saved.push_back(ask(script, samples * size(layer + 1, 1), Category::activations));
    script.push_back(drop(output));
    if (!keep) script.push_back(drop(saved[saved.size() - 2]));
  }
  script.push_back({.kind = Kind::end_op});
  return saved;
}

void ToyTraining::backward(Script& script, int64_t samples, const std::vector<int64_t>& saved) {
  bool first = gradients_.empty();
  int64_t above = ask(script, samples * size(layers_, 1), Category::activations);
  script.push_back(drop(saved.back()));
  for (int layer = layers_ - 1; layer >= 0; --layer) {
    op(script, "conv2d", layer, Phase::backward);
    int64_t below = ask(script, samples * size(layer, 1), Category::activations);
    int64_t gradient = ask(script, size(layer, 0), Category::gradients);
    if (first)
      gradients_.push_back(gradient);
    else
      script.push_back(drop(gradient));  // added to the one that is there
    script.push_back(drop(saved[static_cast<size_t>(layer)]));
    script.push_back(drop(std::exchange(above, below)));
  }
  script.push_back({.kind = Kind::end_op});
  script.push_back(drop(above));
}

void ToyTraining::part(Script& script, int64_t samples, bool first) {
  auto kind = first ? SectionKind::first_micro_step : SectionKind::micro_step;
  script.push_back({.kind = Kind::begin_section, .section = {kind, samples}});
  backward(script, samples, forward(script, samples, true));
  script.push_back({.kind = Kind::end_section});
}

Script ToyTraining::step(const std::vector<int64_t>& parts) {
  latest_.clear();
  Script script{{.kind = Kind::begin_step}};
  for (size_t i = 0; i < parts.size(); ++i) part(script, parts[i], i == 0);
  script.push_back({.kind = Kind::begin_section, .section = {SectionKind::update, 0}});
  int64_t norms = ask(script, 64 * layers_, Category::scratch);
  script.push_back(drop(norms));
  for (int64_t gradient : std::exchange(gradients_, {})) script.push_back(drop(gradient));
  script.push_back({.kind = Kind::end_section});
  script.push_back({.kind = Kind::end_step});
  return script;
}

Script ToyTraining::undone_step(int64_t samples) {
  latest_.clear();
  Script script{{.kind = Kind::begin_step}};
  part(script, samples, true);
  for (int64_t gradient : std::exchange(gradients_, {})) script.push_back(drop(gradient));
  script.push_back({.kind = Kind::end_step});
  return script;
}

Script ToyTraining::evaluation(int64_t samples) {
  latest_.clear();
  Script script{{.kind = Kind::begin_section, .section = {SectionKind::evaluation, samples}}};
  int64_t output = forward(script, samples, false).back();
  script.push_back(drop(output));
  script.push_back({.kind = Kind::end_section});
  return script;
}

ScriptRunner::~ScriptRunner() {
  while (!held_.empty()) drop(held_.begin()->first);
}

void ScriptRunner::run(const Script& script) {
  try {
    for (const Action& action : script) {
      act(action);
      memory::AccountStats stats = account_->stats();
      REQUIRE(stats.reserved == stats.live + stats.cached + stats.fragmented);
    }
  } catch (...) {
    unwind(script);
    throw;
  }
}

void ScriptRunner::unwind(const Script& script) noexcept {
  site_.reset();
  while (sections_ > 0) {
    account_->end_section();
    --sections_;
  }
  for (const Action& action : script)
    if (action.kind == Kind::ask && held_.contains(action.buffer)) drop(action.buffer);
  if (std::exchange(step_, false)) account_->end_step();
}

void ScriptRunner::act(const Action& action) {
  switch (action.kind) {
    case Kind::ask:
      return ask(action);
    case Kind::drop:
      return drop(action.buffer);
    case Kind::op:
      site_.reset();
      site_ = std::make_unique<memory::SiteScope>(memory::Site{.op = interned(action.op)->c_str(),
                                                               .module = interned(action.module),
                                                               .phase = action.phase});
      return;
    case Kind::end_op:
      return site_.reset();
    case Kind::begin_step:
      account_->begin_step();
      step_ = true;
      return;
    case Kind::end_step:
      account_->end_step();
      step_ = false;
      return;
    case Kind::begin_section:
      account_->begin_section(action.section);
      ++sections_;
      return;
    case Kind::end_section:
      account_->end_section();
      --sections_;
  }
}

void ScriptRunner::ask(const Action& action) {
  auto [place, is_new] = held_.try_emplace(action.buffer);
  check(is_new, "a script asks once for a buffer");
  try {
    place->second = account_->allocate(action.bytes, action.category);
  } catch (...) {
    held_.erase(place);
    throw;
  }
  const memory::Block& block = place->second;
  REQUIRE(reinterpret_cast<uintptr_t>(block.address()) % 64 == 0);
  if (!account_->device().is_meta())
    std::memset(block.address(), static_cast<int>(action.buffer % 251),
                static_cast<size_t>(block.bytes));
}

void ScriptRunner::drop(int64_t buffer) {
  auto found = held_.find(buffer);
  if (found == held_.end()) return;  // a script that was changed may not have asked for it
  const memory::Block block = found->second;
  if (!account_->device().is_meta()) {
    auto* bytes = static_cast<const unsigned char*>(block.address());
    bool same = true;
    for (int64_t i = 0; i < block.bytes; ++i) same = same && bytes[i] == buffer % 251;
    CHECK_MESSAGE(same, "buffer ", buffer, " was overwritten");
  }
  held_.erase(found);
  account_->release(block);
}

memory::Trace record(const std::vector<Script>& scripts) {
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  BufferRecorder recorder(account);
  ScriptRunner runner(account);
  for (const Script& script : scripts) runner.run(script);
  return recorder.take();
}

BufferRecorder::BufferRecorder(std::shared_ptr<memory::Account> account)
    : account_(std::move(account)) {
  account_->set_recorder(this);
}

BufferRecorder::~BufferRecorder() { account_->set_recorder(nullptr); }

memory::Trace BufferRecorder::take() {
  account_->set_recorder(nullptr);
  trace_.end = now();
  for (auto [id, number] : numbers_) trace_.buffers[static_cast<size_t>(number)].death = trace_.end;
  return std::move(trace_);
}

void BufferRecorder::allocated(const memory::Block& block) {
  const memory::Site& site = block.live->site;
  numbers_[block.live->id] = now();
  trace_.buffers.push_back({.bytes = block.bytes,
                            .category = block.category,
                            .origin = {site.op, site.path(), site.file, site.line, site.phase},
                            .run = static_cast<int64_t>(site.run),
                            .birth = now(),
                            .last_use = now()});
}

void BufferRecorder::released(const memory::Block& block) noexcept {
  auto found = numbers_.find(block.live->id);
  if (found == numbers_.end()) return;
  trace_.buffers[static_cast<size_t>(found->second)].death = now();
  numbers_.erase(found);
}

void BufferRecorder::began_step() {
  in_step_ = true;
  ++steps_;
}

void BufferRecorder::ended_step() noexcept { in_step_ = false; }

void BufferRecorder::began_section(const memory::Section& section) {
  open_.push_back(trace_.sections.size());
  trace_.sections.push_back({section, now(), now(), in_step_ ? steps_ : -1});
}

void BufferRecorder::ended_section() noexcept {
  trace_.sections[open_.back()].end = now();
  open_.pop_back();
}

}  // namespace brim::testing
