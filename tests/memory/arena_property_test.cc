// Random programs, recorded, planned and run again under their plan, then changed at random.
#include <doctest/doctest.h>

#include <algorithm>

#include "brim/base/random.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

using Kind = Action::Kind;

// A step or an evaluation whose requests, sizes and lifetimes are drawn from a seed: the same seed
// gives the same program with other names.
class RandomProgram {
 public:
  RandomProgram(uint64_t seed, bool step) : seed_(seed), step_(step) {}

  Script run(int64_t& names) const {
    RandomStream random(RandomKey{seed_});
    Script script;
    std::vector<int64_t> carried;
    if (step_) {
      script.push_back({.kind = Kind::begin_step});
      section(script, random, {SectionKind::first_micro_step, samples()}, names, carried);
      section(script, random, {SectionKind::update, 0}, names, carried);
      for (int64_t buffer : carried) script.push_back({.kind = Kind::drop, .buffer = buffer});
      script.push_back({.kind = Kind::end_step});
    } else {
      section(script, random, {SectionKind::evaluation, samples()}, names, carried);
      for (int64_t buffer : carried) script.push_back({.kind = Kind::drop, .buffer = buffer});
    }
    return script;
  }

 private:
  int64_t samples() const { return static_cast<int64_t>(seed_ % 1000) + 1; }

  static void section(Script& script, RandomStream& random, const Section& section, int64_t& names,
                      std::vector<int64_t>& carried) {
    script.push_back({.kind = Kind::begin_section, .section = section});
    std::vector<int64_t> held;
    auto ops = static_cast<int>(5 + random.below(40));
    for (int op = 0; op < ops; ++op) {
      constexpr const char* kOps[] = {"conv2d", "relu", "batch_norm", "add"};
      if (random.below(10) == 0)
        script.push_back({.kind = Kind::end_op});
      else
        script.push_back({.kind = Kind::op,
                          .op = kOps[random.below(4)],
                          .module = "layer" + std::to_string(random.below(6))});
      for (uint64_t i = random.below(4); i > 0; --i) {
        script.push_back(
            {.buffer = ++names, .bytes = 1 + static_cast<int64_t>(random.below(9000))});
        (random.below(12) == 0 ? carried : held).push_back(names);
      }
      while (!held.empty() && random.below(3) > 0) {
        std::swap(held[random.below(held.size())], held.back());
        script.push_back({.kind = Kind::drop, .buffer = held.back()});
        held.pop_back();
      }
    }
    script.push_back({.kind = Kind::end_op});
    for (int64_t buffer : held) script.push_back({.kind = Kind::drop, .buffer = buffer});
    script.push_back({.kind = Kind::end_section});
  }

  uint64_t seed_;
  bool step_;
};

// Some requests left out, added or changed, some drops left out; the buffers that then stay.
std::vector<int64_t> disturb(Script& script, RandomStream& random, int64_t& names) {
  Script changed;
  std::vector<int64_t> kept;
  for (Action& action : script) {
    bool hit = random.below(12) == 0;
    bool ask = action.kind == Kind::ask, drop = action.kind == Kind::drop;
    if (ask && hit && random.below(3) == 0) continue;
    if (ask && hit && random.below(2) == 0) action.bytes += 64 * (1 + random.below(20));
    if (ask && hit) {
      kept.push_back(++names);
      changed.push_back({.buffer = names, .bytes = 1 + static_cast<int64_t>(random.below(5000))});
    }
    if (action.kind == Kind::op && hit) action.op = "gelu";
    if (drop && hit)
      kept.push_back(action.buffer);
    else
      changed.push_back(action);
  }
  script = changed;
  return kept;
}

Script setup(uint64_t seed, int64_t& names) {
  RandomStream random(RandomKey{seed + 7});
  Script script;
  for (uint64_t i = 0; i < 1 + random.below(20); ++i) {
    script.push_back({.buffer = ++names, .bytes = 1 + static_cast<int64_t>(random.below(4000))});
    if (random.below(3) == 0) script.push_back({.kind = Kind::drop, .buffer = names});
  }
  return script;
}

}  // namespace

TEST_CASE("random programs run under their plan without a mismatch, in its bytes, intact") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    RandomProgram step(seed, true), last(seed + 100, true), evaluation(seed + 200, false);
    auto scripts = [&] {
      int64_t names = 0;
      return std::vector<Script>{setup(seed, names),    step.run(names),       step.run(names),
                                 evaluation.run(names), evaluation.run(names), last.run(names),
                                 step.run(names)};
    };
    auto plan = std::make_shared<const Plan>(make_plan(record(scripts())));
    auto account = std::make_shared<Account>(
        Device::cpu(), std::make_unique<HostSource>(plan->arena_bytes), arena_planner(plan));
    account->set_checking(true);
    ScriptRunner runner(account);
    for (const Script& script : scripts()) runner.run(script);
    CHECK(account->stats().mismatches == 0);
    CHECK(account->stats().peak_reserved == plan->arena_bytes);
  }
}

TEST_CASE("programs disturbed at random never overlap, and undisturbed they are as planned again") {
  int64_t served = 0, refused = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    RandomStream random(RandomKey{seed + 1000});
    RandomProgram step(seed, true), evaluation(seed + 200, false);
    int64_t names = 0;
    std::vector<Script> rehearsal{setup(seed, names), step.run(names), step.run(names),
                                  evaluation.run(names)};
    auto plan = std::make_shared<const Plan>(make_plan(record(rehearsal)));
    int64_t beyond = seed % 3 == 0 ? 0 : int64_t{1} << (10 + random.below(12));
    auto account = std::make_shared<Account>(
        Device::cpu(), std::make_unique<HostSource>(plan->arena_bytes + beyond),
        arena_planner(plan));
    account->set_checking(true);
    ScriptRunner runner(account);
    runner.run(rehearsal[0]);
    std::vector<int64_t> kept;
    for (int round = 0; round < 6; ++round) {
      Script script = (random.below(3) == 0 ? evaluation : step).run(names);
      auto more = disturb(script, random, names);
      kept.insert(kept.end(), more.begin(), more.end());
      try {
        runner.run(script);
        ++served;
      } catch (const OutOfMemory&) {
        ++refused;
      }
      if (random.below(2) == 0) {
        for (int64_t buffer : kept) runner.drop(buffer);
        kept.clear();
      }
    }
    for (int64_t buffer : kept) runner.drop(buffer);
    int64_t before = account->stats().mismatches;
    for (int i = 0; i < 2; ++i) {
      runner.run(step.run(names));
      runner.run(evaluation.run(names));
    }
    CHECK(account->stats().mismatches == before);
    account->empty_cache();
    CHECK(account->stats().reserved == plan->arena_bytes);
  }
  CHECK(served > 100);
  CHECK(refused > 10);
}
