// Programs for tests of planners, as lists of what they do to an account: no tensors, so that
// anything can be left out, added or delayed. `run_script` does what a script says and checks that
// no byte of a block changes while it is held; `record` makes a trace of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/trace.h"

namespace brim::testing {

struct Action {
  enum class Kind { ask, drop, op, end_op, begin_step, end_step, begin_section, end_section };
  Kind kind = Kind::ask;
  int64_t buffer = 0;  ///< ask and drop: its name
  int64_t bytes = 0;   ///< ask
  memory::Category category = memory::Category::activations;
  std::string op = {}, module = {};  ///< op
  memory::Phase phase = memory::Phase::forward;
  memory::Section section = {};  ///< begin_section
};

using Script = std::vector<Action>;

/// A training loop: layers of two ops each with activations, scratch and gradients of different
/// sizes.
class ToyTraining {
 public:
  explicit ToyTraining(int layers, int64_t seed = 0) : layers_(layers), seed_(seed) {}

  Script setup();
  /// An update of parts of so many samples each.
  Script step(const std::vector<int64_t>& parts);
  Script evaluation(int64_t samples);
  /// Begin and a first part, without an update: as after a failure.
  Script undone_step(int64_t samples);
  /// Buffers asked for by the latest script, in order.
  const std::vector<int64_t>& latest() const { return latest_; }

 private:
  int64_t size(int layer, int64_t salt) const;
  int64_t ask(Script& script, int64_t bytes, memory::Category category);
  void op(Script& script, const char* name, int layer, memory::Phase phase) const;
  std::vector<int64_t> forward(Script& script, int64_t samples, bool keep);
  void backward(Script& script, int64_t samples, const std::vector<int64_t>& saved);
  void part(Script& script, int64_t samples, bool first);

  int layers_;
  int64_t seed_, next_ = 0;
  std::vector<int64_t> gradients_, latest_;
};

/// Blocks that scripts hold, by name. Those on a device with bytes are filled when they are asked
/// for and compared when they are dropped.
class ScriptRunner {
 public:
  explicit ScriptRunner(std::shared_ptr<memory::Account> account) : account_(std::move(account)) {}
  ~ScriptRunner();
  ScriptRunner(const ScriptRunner&) = delete;
  ScriptRunner& operator=(const ScriptRunner&) = delete;

  /// Checks after every action that reserved = live + cached + fragmented and that blocks are on
  /// their boundary. Throws what the account throws, with sections and the step ended, and what
  /// this script asked for dropped.
  void run(const Script& script);
  void drop(int64_t buffer);
  int64_t held() const { return static_cast<int64_t>(held_.size()); }

 private:
  void act(const Action& action);
  void ask(const Action& action);
  void unwind(const Script& script) noexcept;

  std::shared_ptr<memory::Account> account_;
  std::map<int64_t, memory::Block> held_;
  std::unique_ptr<memory::SiteScope> site_;
  int sections_ = 0;
  bool step_ = false;
};

/// What the scripts do, one after the other, on an account without bytes.
memory::Trace record(const std::vector<Script>& scripts);

/// The trace of what happens to an account while it is there, its ops left out.
class BufferRecorder final : public memory::Recorder {
 public:
  explicit BufferRecorder(std::shared_ptr<memory::Account> account);
  ~BufferRecorder() override;
  memory::Trace take();

  void allocated(const memory::Block& block) override;
  void released(const memory::Block& block) noexcept override;
  void began_step() override;
  void ended_step() noexcept override;
  void began_section(const memory::Section& section) override;
  void ended_section() noexcept override;

 private:
  int64_t now() const { return static_cast<int64_t>(trace_.buffers.size()); }

  std::shared_ptr<memory::Account> account_;
  memory::Trace trace_;
  std::map<uint64_t, int64_t> numbers_;  // in the trace, by the account's own
  std::vector<size_t> open_;
  int64_t steps_ = 0;
  bool in_step_ = false;
};

/// Of a recording of the scripts.
inline std::shared_ptr<const memory::Plan> plan_of(const std::vector<Script>& scripts) {
  return std::make_shared<const memory::Plan>(memory::make_plan(record(scripts)));
}

/// On host memory, with every placement checked.
inline std::shared_ptr<memory::Account> account_under(std::shared_ptr<const memory::Plan> plan,
                                                      int64_t capacity = memory::host_memory()) {
  auto account = std::make_shared<memory::Account>(Device::cpu(),
                                                   std::make_unique<memory::HostSource>(capacity),
                                                   memory::arena_planner(std::move(plan)));
  account->set_checking(true);
  return account;
}

}  // namespace brim::testing
