// What an allocation costs, and what a policy reserves, on what a ResNet-50 training step asks for
// (batch 32, 224 pixels, recorded on the meta device): nanoseconds for a request and its release
// through the account under each planner, and of glibc's malloc as it comes and tuned never to
// return a page (as MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=256MiB do). No
// contender touches a page of what it gets, so the cost of fresh pages, most of what stock malloc
// costs a real step, is in none of these numbers. Each runs in a process of its own; they take
// turns.
//
//   alloc_bench [--rounds N] [--steps N] [--json FILE]
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "brim/autograd/trace_recorder.h"
#include "brim/base/bytes.h"
#include "brim/base/stop.h"
#include "brim/bench/request_sequence.h"
#include "brim/bench/timing.h"
#include "brim/bench/torch_policy.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"
#include "brim/memory/arena_planner.h"

namespace brim::bench {
namespace {

using nlohmann::json;

/// Two steps on the meta device; calls `between` after the first and `end` after the second.
void resnet50(int64_t batch, int64_t size, const std::function<void()>& between,
              const std::function<void()>& end) {
  auto model = nn::make_model("resnet50", {.device = Device::meta()});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9, .weight_decay = 1e-4});
  TrainStep step(*model, sgd);
  Tensor images = empty({batch, size, size, 3}, {.device = Device::meta()});
  Tensor labels = empty({batch}, {.dtype = Dtype::int64, .device = Device::meta()});
  auto run = [&] {
    step.run(0.1, [&] { return cross_entropy((*model)(images), labels); }, {.samples = batch});
  };
  run();
  between();
  run();
  end();
}

struct Rehearsal {
  Sequence sequence;
  std::shared_ptr<const memory::Plan> plan;
};

Rehearsal rehearse(int64_t batch, int64_t size) {
  auto meta_account = [] {
    return std::make_shared<memory::Account>(Device::meta(), std::make_unique<memory::NullSource>(),
                                             memory::planner_named("direct"));
  };
  Rehearsal result;
  {
    memory::AccountScope scope(meta_account());
    SequenceRecorder recorder;
    memory::account(Device::meta())->set_recorder(&recorder);
    auto end = [&] {
      result.sequence = recorder.finish();
      memory::account(Device::meta())->set_recorder(nullptr);
    };
    resnet50(
        batch, size, [&] { recorder.keep(); }, end);
  }
  memory::AccountScope scope(meta_account());
  autograd::TraceRecorder recorder(memory::account(Device::meta()));
  auto end = [&] {
    result.plan = std::make_shared<memory::Plan>(memory::make_plan(recorder.take()));
  };
  resnet50(
      batch, size, [] {}, end);
  return result;
}

using Step = std::function<void()>;

Step malloc_step(const Sequence& sequence) {
  auto held = std::make_shared<std::vector<void*>>(sequence.slots);
  auto play = [held](const std::vector<Event>& events) {
    for (const Event& event : events) {
      if (event.kind == Event::Kind::request)
        (*held)[event.number] = std::malloc(static_cast<size_t>(event.bytes));
      if (event.kind == Event::Kind::release) std::free((*held)[event.number]);
    }
  };
  play(sequence.before);
  return [play, &sequence] { play(sequence.step); };
}

Step tuned_malloc_step(const Sequence& sequence) {
  check(mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, -1) == 1 &&
            mallopt(M_TOP_PAD, 256 << 20) == 1,
        "malloc can be tuned");
  return malloc_step(sequence);
}

class Replay {
 public:
  /// Over host memory: what is never touched needs no page.
  Replay(const Sequence& sequence, const memory::MakePlanner& planner)
      : sequence_(sequence),
        account_(Device::cpu(), std::make_unique<memory::HostSource>(memory::Source::kUnlimited),
                 planner),
        held_(sequence.slots) {
    play(sequence.before);
  }
  void step() { play(sequence_.step); }
  memory::AccountStats stats() const { return account_.stats(); }

 private:
  void play(const std::vector<Event>& events) {
    for (const Event& event : events) play(event);
  }
  void play(const Event& event) {
    using enum Event::Kind;
    switch (event.kind) {
      case request:
        held_[event.number] = account_.allocate(event.bytes, memory::Category::activations);
        return;
      case release:
        return account_.release(held_[event.number]);
      case site:
        return enter(sequence_.sites[event.number]);
      case begin_step:
        return account_.begin_step();
      case end_step:
        return account_.end_step();
      case begin_section:
        return account_.begin_section(sequence_.sections[event.number]);
      case end_section:
        return account_.end_section();
    }
  }
  void enter(const memory::Site& site) {
    site_.reset();  // before there is another
    if (site.run != 0) site_.emplace(site);
  }

  const Sequence& sequence_;
  memory::Account account_;
  std::vector<memory::Block> held_;
  std::optional<memory::SiteScope> site_;
};

Step account_step(const Sequence& sequence, const memory::MakePlanner& planner) {
  return [replay = std::make_shared<Replay>(sequence, planner)] { replay->step(); };
}

struct Contender {
  std::string name;
  std::function<Step()> make;
  std::vector<double> nanoseconds;  // of a request and its release, by round
};

/// A contender in a process of its own: what it does to the heap disturbs no other.
class Process {
 public:
  Process(const Contender& contender, int steps, double pairs) {
    check(pipe(to_child_) == 0 && pipe(from_child_) == 0, "pipes");
    child_ = fork();
    check(child_ >= 0, "a process for each contender");
    if (child_ == 0) serve(contender, steps, pairs);
    close(to_child_[0]);
    close(from_child_[1]);
  }
  ~Process() {
    char end = 'e';  // not by closing: later children have copies of the pipe
    if (write(to_child_[1], &end, 1) == 1) waitpid(child_, nullptr, 0);
    close(to_child_[1]);
    close(from_child_[0]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  double round() {
    char go = 'g';
    double result = 0;
    check(write(to_child_[1], &go, 1) == 1 &&
              read(from_child_[0], &result, sizeof result) == sizeof result,
          "a contender answers");
    return result;
  }

 private:
  [[noreturn]] void serve(const Contender& contender, int steps, double pairs) {
    close(to_child_[1]);
    const StopScope whole(nullptr);  // no request asks whether to stop
    Step step = contender.make();
    for (int i = 0; i < 3; ++i) step();
    for (char go; read(to_child_[0], &go, 1) == 1 && go == 'g';) {
      auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < steps; ++i) step();
      std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
      double each = took.count() / (steps * pairs);
      if (write(from_child_[1], &each, sizeof each) != sizeof each) break;
    }
    _exit(0);
  }

  int to_child_[2], from_child_[2];
  pid_t child_;
};

void measure(std::vector<Contender>& contenders, const Sequence& sequence, int rounds, int steps) {
  std::vector<std::unique_ptr<Process>> processes;
  auto pairs = static_cast<double>(sequence.requests);
  for (const Contender& contender : contenders)
    processes.push_back(std::make_unique<Process>(contender, steps, pairs));
  for (int round = -1; round < rounds; ++round)
    for (size_t i = 0; i < contenders.size(); ++i) {
      double each = processes[i]->round();
      if (round >= 0) contenders[i].nanoseconds.push_back(each);
    }
}

memory::AccountStats after_steps(const Sequence& sequence, const memory::MakePlanner& planner) {
  Replay replay(sequence, planner);
  for (int i = 0; i < 3; ++i) replay.step();
  return replay.stats();
}

int64_t reserved_by_torch(const Sequence& sequence) {
  TorchPolicy policy;
  auto play = [&](const std::vector<Event>& events) {
    for (const Event& event : events) {
      if (event.kind == Event::Kind::request) policy.allocate(event.number, event.bytes);
      if (event.kind == Event::Kind::release) policy.release(event.number);
    }
  };
  play(sequence.before);
  for (int i = 0; i < 3; ++i) play(sequence.step);
  return policy.reserved();
}

json report_time(const std::vector<Contender>& contenders) {
  double stock = median(contenders[0].nanoseconds), tuned = median(contenders[1].nanoseconds);
  fmt::print("{:16} {:>12} {:>12} {:>12}\n", "request+release", "ns, median", "of stock",
             "of tuned");
  json result;
  for (const Contender& contender : contenders) {
    double each = median(contender.nanoseconds);
    fmt::print("{:16} {:12.1f} {:12.3f} {:12.3f}\n", contender.name, each, each / stock,
               each / tuned);
    result[contender.name] = {
        {"nanoseconds", each}, {"of_stock", each / stock}, {"of_tuned", each / tuned}};
  }
  return result;
}

json report_reserved(const Rehearsal& rehearsal) {
  const Sequence& sequence = rehearsal.sequence;
  auto direct = after_steps(sequence, memory::planner_named("direct"));
  auto arena = after_steps(sequence, memory::arena_planner(rehearsal.plan));
  auto caching = after_steps(sequence, memory::planner_named("caching"));
  json result{{"arena_mismatches", arena.mismatches}};
  fmt::print("\n{:16} {:>12} {:>12}\n", "reserved", "peak", "of live");
  auto line = [&](const std::string& name, int64_t bytes) {
    fmt::print("{:16} {:>12} {:12.4f}\n", name, format_bytes(bytes),
               static_cast<double>(bytes) / static_cast<double>(direct.peak_live));
    result[name] = bytes;
  };
  line("direct", direct.peak_reserved);
  line("arena", arena.peak_reserved);
  line("caching", caching.peak_reserved);
  line("PyTorch's policy", reserved_by_torch(sequence));
  fmt::print("requests that the arena's plan did not serve: {}\n", arena.mismatches);
  return result;
}

void run(int rounds, int steps, const std::string& file) {
  Rehearsal rehearsal = rehearse(32, 224);
  const Sequence& sequence = rehearsal.sequence;
  fmt::print("ResNet-50, batch 32, 224 pixels: {} requests a step\n", sequence.requests);
  std::fflush(stdout);  // before there are processes that have a copy of it
  auto under = [&](const memory::MakePlanner& planner) {
    return [&sequence, planner] { return account_step(sequence, planner); };
  };
  std::vector<Contender> contenders{
      {"malloc, stock", [&] { return malloc_step(sequence); }, {}},
      {"malloc, tuned", [&] { return tuned_malloc_step(sequence); }, {}},
      {"direct", under(memory::planner_named("direct")), {}},
      {"caching", under(memory::planner_named("caching")), {}},
      {"arena", under(memory::arena_planner(rehearsal.plan)), {}}};
  measure(contenders, sequence, rounds, steps);
  json result{{"requests", sequence.requests}};
  result["time"] = report_time(contenders);
  result["reserved"] = report_reserved(rehearsal);
  if (!file.empty()) std::ofstream(file) << result.dump(2) << "\n";
}

}  // namespace
}  // namespace brim::bench

int main(int argc, char** argv) {
  using namespace brim;
  apps::App app("Allocation: nanoseconds of a request and its release, and reserved bytes.",
                    "alloc_bench");
  int rounds = 21, steps = 20;
  std::string file;
  app.add_option("--rounds", rounds).check(apps::whole_number(1));
  app.add_option("--steps", steps, "steps in a round").check(apps::whole_number(1));
  app.add_option("--json", file);
  return apps::run_program(app, argc, argv, [&] { bench::run(rounds, steps, file); });
}
