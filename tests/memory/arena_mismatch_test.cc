// Programs that differ from the one that was planned: what the arena planner serves as planned all
// the same, what it counts, and that it is back on its plan afterwards.
#include <doctest/doctest.h>

#include <algorithm>

#include "brim/base/error.h"
#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

// A rehearsed program with room beyond the arena.
struct Rehearsed {
  explicit Rehearsed(int64_t beyond = 1 << 20) {
    ToyTraining rehearsal(6);
    plan = plan_of({rehearsal.setup(), rehearsal.step({8, 8}), rehearsal.step({8, 8}),
                    rehearsal.evaluation(9), rehearsal.step({5})});
    account = account_under(plan, plan->arena_bytes + beyond);
    runner = std::make_unique<ScriptRunner>(account);
    runner->run(toy.setup());
    runner->run(toy.step({8, 8}));
  }
  int64_t mismatches() const { return account->stats().mismatches; }
  // Mismatches of a script.
  int64_t run(const Script& script) {
    int64_t before = mismatches();
    runner->run(script);
    return mismatches() - before;
  }
  int64_t steady() { return run(toy.step({8, 8})) + run(toy.evaluation(9)) + run(toy.step({5})); }

  ToyTraining toy{6};
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Account> account;
  std::unique_ptr<ScriptRunner> runner;
};

// The `nth` action of a kind.
size_t find(const Script& script, Action::Kind kind, int nth) {
  for (size_t i = 0; i < script.size(); ++i)
    if (script[i].kind == kind && nth-- == 0) return i;
  FAIL("there is no such action");
  return 0;
}

Action ask(int64_t buffer, int64_t bytes) { return {.buffer = buffer, .bytes = bytes}; }

Action drop(int64_t buffer) { return {.kind = Action::Kind::drop, .buffer = buffer}; }

void insert(Script& script, size_t at, std::initializer_list<Action> actions) {
  script.insert(script.begin() + static_cast<ptrdiff_t>(at), actions);
}

// What keeps the buffer that was asked for `nth` in the script.
int64_t keep(Script& script, int nth) {
  int64_t buffer = script[find(script, Action::Kind::ask, nth)].buffer;
  std::erase_if(script, [&](const Action& action) {
    return action.kind == Action::Kind::drop && action.buffer == buffer;
  });
  return buffer;
}

constexpr int64_t kStray = 1'000'000'000;  // a name that no toy gives

}  // namespace

TEST_CASE("more or fewer micro-steps than rehearsed are served as planned, also none after one") {
  Rehearsed r;
  CHECK(r.run(r.toy.step({8, 8, 8, 8, 8, 8})) == 0);
  CHECK(r.run(r.toy.step({8})) == 0);
  CHECK(r.run(r.toy.undone_step(8)) == 0);
  CHECK(r.run(r.toy.undone_step(5)) == 0);
  CHECK(r.steady() == 0);
  CHECK(r.account->stats().peak_reserved == r.plan->arena_bytes);
}

TEST_CASE("evaluations between steps are served as planned, however many") {
  Rehearsed r;
  for (int i = 0; i < 3; ++i) CHECK(r.run(r.toy.evaluation(9)) == 0);
  CHECK(r.steady() == 0);
}

TEST_CASE("an op that is not planned is counted request by request, the rest is as planned") {
  for (int at : {0, 1, 5, 11}) {
    Rehearsed r;
    Script script = r.toy.step({8, 8});
    insert(script, find(script, Action::Kind::op, at),
           {{.kind = Action::Kind::op, .op = "dropout", .module = "head"},
            ask(kStray, 640),
            ask(kStray + 1, 128),
            drop(kStray),
            drop(kStray + 1)});
    CHECK(r.run(script) == 2);
    CHECK(r.steady() == 0);
    std::string report = r.account->mismatch_report();
    CHECK(report.find("2 requests were not served as planned") == 0);
    CHECK(report.find("640 B of dropout in head: not in the plan") != std::string::npos);
  }
}

TEST_CASE("a second op of the same name is one mismatch, wherever it comes") {
  for (int at : {1, 3, 5, 7, 9}) {
    Rehearsed r;
    Script script = r.toy.step({8, 8});
    size_t op = find(script, Action::Kind::op, at);
    Action again = script[op], request = script[op + 1];
    request.buffer = kStray;
    insert(script, op, {again, request, drop(kStray)});
    CHECK(r.run(script) == 1);
    CHECK(r.steady() == 0);
  }
}

TEST_CASE("an op that does not come costs no mismatch") {
  for (int at : {0, 1, 4, 7, 11, 13}) {
    Rehearsed r;
    Script script = r.toy.step({8, 8});
    size_t from = find(script, Action::Kind::op, at), to = find(script, Action::Kind::op, at + 1);
    std::erase_if(script, [&, i = size_t{0}](const Action& a) mutable {
      size_t here = i++;
      return here >= from && here < to && a.kind != Action::Kind::drop;
    });
    CHECK(r.run(script) == 0);
    CHECK(r.steady() == 0);
  }
}

TEST_CASE("a request more within an op is one mismatch, one of other bytes too") {
  Rehearsed r;
  Script script = r.toy.step({8, 8});
  size_t op = find(script, Action::Kind::op, 4);
  insert(script, op + 1, {ask(kStray, 4096), drop(kStray)});
  CHECK(r.run(script) == 1);
  script = r.toy.step({8, 8});
  script[find(script, Action::Kind::op, 4) + 1].bytes += 64;
  CHECK(r.run(script) == 1);
  CHECK(r.steady() == 0);
}

TEST_CASE("a tensor that a user keeps is named and never overwritten, and gone it costs nothing") {
  Rehearsed r;
  const int64_t free = r.plan->arena_bytes - r.plan->kept_bytes;
  CHECK(r.account->planner_stats().largest_free == free);
  const int64_t live = r.account->stats().live;
  Script script = r.toy.step({8, 8});
  int64_t kept = keep(script, 3);
  CHECK(r.run(script) > 0);  // what comes later in the step goes elsewhere
  // It cuts the hole in two.
  const int64_t rest = free - (r.account->stats().live - live);
  CHECK(r.account->planner_stats().largest_free <= rest);
  CHECK(r.account->planner_stats().largest_free >= rest / 2);
  int64_t each = r.run(r.toy.step({8, 8}));
  CHECK(each > 0);
  CHECK(r.run(r.toy.step({8, 8})) == each);  // what it displaces is the same every time
  CHECK(r.account->mismatch_report().find("were in its place, kept beyond the plan") !=
        std::string::npos);
  r.runner->drop(kept);  // which compares its bytes
  CHECK(r.steady() == 0);
}

TEST_CASE("a user who keeps every output has each of them, and recovers") {
  Rehearsed r(64 << 20);
  std::vector<int64_t> outputs;
  for (int i = 0; i < 40; ++i) {
    Script script = r.toy.evaluation(9);
    outputs.push_back(keep(script, 18));
    r.run(script);
    r.run(r.toy.step({8, 8}));
  }
  for (int64_t output : outputs) r.runner->drop(output);
  CHECK(r.steady() == 0);
  CHECK(r.account->stats().reserved > r.plan->arena_bytes);
  r.account->empty_cache();
  CHECK(r.account->stats().reserved == r.plan->arena_bytes);
}

TEST_CASE("without room beyond the arena strays are served from what the plan leaves free") {
  Rehearsed r(0);
  Script script = r.toy.step({5});  // smaller than the arena was made for
  insert(script, find(script, Action::Kind::op, 2), {ask(kStray, 640)});
  CHECK(r.run(script) == 1);
  r.runner->drop(kStray);
  CHECK(r.steady() == 0);
  CHECK(r.account->stats().peak_reserved == r.plan->arena_bytes);
}

TEST_CASE("what fits nowhere is refused, and the program goes on as planned") {
  Rehearsed r(0);
  Script script = r.toy.step({8, 8});
  insert(script, find(script, Action::Kind::op, 4), {ask(kStray, r.plan->arena_bytes)});
  CHECK_THROWS_AS(r.runner->run(script), OutOfMemory);
  CHECK(r.steady() == 0);
}

TEST_CASE("tensors made between steps, and parameters made again, do not disturb steps") {
  Rehearsed r;
  r.runner->run({ask(kStray, 4096), ask(kStray + 1, 192)});
  int64_t strays = r.mismatches();
  CHECK(r.steady() == 0);
  CHECK(r.mismatches() == strays);
  r.runner->drop(kStray);
  Script setup = ToyTraining(6).setup();
  int64_t parameter = setup[1].buffer, bytes = setup[1].bytes;
  r.runner->drop(parameter);
  CHECK(r.run({ask(kStray + 2, bytes)}) == 0);
  CHECK(r.steady() == 0);
}

TEST_CASE("an unplanned section runs in the arena's free bytes and is all mismatches") {
  Rehearsed r(0);
  Script script = r.toy.evaluation(4);
  auto requests = std::ranges::count(script, Action::Kind::ask, &Action::kind);
  CHECK(r.run(script) == requests);
  CHECK(r.steady() == 0);
}

TEST_CASE("an evaluation inside a section takes nothing from the section around it") {
  Rehearsed r;
  Script script = r.toy.step({8, 8}), inner = r.toy.evaluation(9);
  size_t at = find(script, Action::Kind::op, 8);
  script.insert(script.begin() + static_cast<ptrdiff_t>(at), inner.begin(), inner.end());
  r.run(script);  // what of the evaluation has its place free is served there, the rest counted
  CHECK(r.steady() == 0);
  ToyTraining toy(6);  // planned so, it is served as planned
  std::vector<Script> scripts{toy.setup()};
  for (int i = 0; i < 2; ++i) {
    script = toy.step({8, 8});
    inner = toy.evaluation(9);
    script.insert(script.begin() + static_cast<ptrdiff_t>(at), inner.begin(), inner.end());
    scripts.push_back(script);
  }
  auto plan = plan_of(scripts);
  auto account = account_under(plan, plan->arena_bytes);
  ScriptRunner runner(account);
  for (const Script& each : scripts) runner.run(each);
  CHECK(account->stats().mismatches == 0);
}

TEST_CASE("a batch made before the step that uses it is part of the program") {
  auto program = [](ToyTraining& toy, int64_t batch, int64_t bytes) {
    Script script = toy.step({8});
    insert(script, 0, {ask(kStray + batch, bytes)});
    script.push_back(drop(kStray + batch));
    return script;
  };
  ToyTraining rehearsal(4);
  auto plan = plan_of({rehearsal.setup(), program(rehearsal, 0, 6400), program(rehearsal, 1, 6400),
                       rehearsal.evaluation(3)});
  CHECK(plan->programs[1].sections[0].preamble == 1);
  ToyTraining toy(4);
  auto account = account_under(plan, plan->arena_bytes);
  ScriptRunner runner(account);
  runner.run(toy.setup());
  for (int i = 0; i < 4; ++i) {
    runner.run(program(toy, i, 6400));
    runner.run(toy.evaluation(3));
  }
  CHECK(account->stats().mismatches == 0);
}

TEST_CASE("a program that follows nothing of its plan runs, all of it beyond the plan") {
  Rehearsed r(64 << 20);
  Script script{{.kind = Action::Kind::begin_section, .section = {SectionKind::evaluation, 9}}};
  for (int i = 0; i < 20'000; ++i) {
    script.push_back({.kind = Action::Kind::op, .op = "other", .module = std::to_string(i % 7)});
    script.push_back(ask(kStray + i, 64 * (1 + i % 50)));
    if (i >= 100) script.push_back(drop(kStray + i - 100));
  }
  for (int i = 19'900; i < 20'000; ++i) script.push_back(drop(kStray + i));
  script.push_back({.kind = Action::Kind::end_op});
  script.push_back({.kind = Action::Kind::end_section});
  r.account->set_checking(false);
  CHECK(r.run(script) == 20'000);
  CHECK(r.steady() == 0);
}

TEST_CASE("a set-up in another order, or one request of which is refused, fills the same places") {
  Rehearsed r(0);
  ToyTraining toy(6);
  Script setup = toy.setup();
  std::erase_if(setup, [&](const Action& a) {  // without the drafts
    return a.category == Category::other || a.kind == Action::Kind::drop;
  });
  std::ranges::reverse(setup);
  auto account = account_under(r.plan, r.plan->arena_bytes);
  ScriptRunner runner(account);
  account->fail_nth(3);
  CHECK_THROWS_AS(runner.run(setup), OutOfMemory);
  runner.run(setup);
  runner.run(toy.step({8, 8}));
  CHECK(account->stats().mismatches == 0);
}

TEST_CASE(
    "a planned place goes to another stream after the work of the one that had it, not else") {
  struct Waits final : StreamOrder {
    void wait(int waiting, int waited) noexcept override {
      CHECK((waiting == 1 && waited == 0));
      ++count;
    }
    void finish(int) noexcept override {}
    int count = 0;
  };
  auto op = [](const char* name) { return Action{.kind = Action::Kind::op, .op = name}; };
  Script begin{{.kind = Action::Kind::begin_section, .section = {SectionKind::evaluation, 1}},
               op("first"),
               ask(1, 6400)};
  Script beside{op("beside"), ask(2, 640)}, second{op("second"), drop(1), ask(3, 6400), drop(3)};
  Script third{op("third"), ask(4, 6400)};
  Script end{drop(4), drop(2), {.kind = Action::Kind::end_op}, {.kind = Action::Kind::end_section}};
  Script whole;
  for (const Script* part : {&begin, &beside, &second, &third, &end})
    whole.insert(whole.end(), part->begin(), part->end());
  auto plan = plan_of({whole});
  REQUIRE(plan->arena_bytes == 7040);  // the second and third in the first one's place

  auto waits = std::make_shared<Waits>();
  auto source = std::make_unique<HostSource>(plan->arena_bytes);
  source->set_stream_order(waits);
  Account account(Device::cpu(), std::move(source), arena_planner(plan));
  ScriptRunner runner(std::shared_ptr<Account>(std::shared_ptr<void>(), &account));
  runner.run(begin);
  {
    StreamScope stream(1);
    runner.run(beside);  // who had these bytes before the section is not known: it waits for all
    CHECK(waits->count == 1);
    runner.run(second);
    CHECK(waits->count == 2);
    runner.run(third);  // after its own stream's work
    CHECK(waits->count == 2);
  }
  runner.run(end);
  CHECK(account.stats().mismatches == 0);
}
