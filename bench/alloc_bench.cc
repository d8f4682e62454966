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

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "brim/base/bytes.h"
#include "brim/bench/request_sequence.h"
#include "brim/bench/torch_policy.h"
#include "brim/brim.h"

namespace brim::bench {
namespace {

using nlohmann::json;

Sequence resnet50_step(int64_t batch, int64_t size) {
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  memory::AccountScope scope(account);
  SequenceRecorder recorder;
  account->set_recorder(&recorder);
  auto model = nn::make_model("resnet50", {.device = Device::meta()});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9, .weight_decay = 1e-4});
  TrainStep step(*model, sgd);
  Tensor images = empty({batch, size, size, 3}, {.device = Device::meta()});
  Tensor labels = empty({batch}, {.dtype = Dtype::int64, .device = Device::meta()});
  auto run = [&] { step.run(0.1, [&] { return cross_entropy((*model)(images), labels); }); };
  run();
  recorder.keep();
  run();
  Sequence sequence = recorder.finish();
  account->set_recorder(nullptr);
  return sequence;
}

using Step = std::function<void()>;

Step malloc_step(const Sequence& sequence) {
  auto held = std::make_shared<std::vector<void*>>(sequence.slots);
  auto play = [held](const std::vector<Event>& events) {
    for (const Event& event : events) {
      void*& slot = (*held)[event.slot];
      if (event.bytes == 0)
        std::free(slot);
      else
        slot = std::malloc(static_cast<size_t>(event.bytes));
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

struct Replay {
  std::shared_ptr<memory::Account> account;
  std::vector<memory::Block> held;

  void play(const std::vector<Event>& events) {
    for (const Event& event : events) {
      memory::Block& slot = held[event.slot];
      if (event.bytes == 0)
        account->release(slot);
      else
        slot = account->allocate(event.bytes, memory::Category::activations);
    }
  }
};

/// Over host memory: what is never touched needs no page.
std::shared_ptr<Replay> replay(const Sequence& sequence, const std::string& planner) {
  auto source = std::make_unique<memory::HostSource>(memory::Source::kUnlimited);
  auto account = std::make_shared<memory::Account>(Device::cpu(), std::move(source),
                                                   memory::planner_named(planner));
  auto replay = std::make_shared<Replay>(
      Replay{std::move(account), std::vector<memory::Block>(sequence.slots)});
  replay->play(sequence.before);
  return replay;
}

Step account_step(const Sequence& sequence, const std::string& planner) {
  return [&sequence, replay = replay(sequence, planner)] { replay->play(sequence.step); };
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

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void measure(std::vector<Contender>& contenders, const Sequence& sequence, int rounds, int steps) {
  std::vector<std::unique_ptr<Process>> processes;
  double pairs = static_cast<double>(sequence.step.size()) / 2;
  for (const Contender& contender : contenders)
    processes.push_back(std::make_unique<Process>(contender, steps, pairs));
  for (int round = -1; round < rounds; ++round)
    for (size_t i = 0; i < contenders.size(); ++i) {
      double each = processes[i]->round();
      if (round >= 0) contenders[i].nanoseconds.push_back(each);
    }
}

int64_t reserved(const Sequence& sequence, const std::string& planner) {
  auto run = replay(sequence, planner);
  for (int i = 0; i < 3; ++i) run->play(sequence.step);
  return run->account->stats().peak_reserved;
}

int64_t reserved_by_torch(const Sequence& sequence) {
  TorchPolicy policy;
  auto play = [&](const std::vector<Event>& events) {
    for (const Event& event : events)
      event.bytes == 0 ? policy.release(event.slot) : policy.allocate(event.slot, event.bytes);
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

json report_reserved(const Sequence& sequence) {
  int64_t least = reserved(sequence, "direct");
  json result;
  auto line = [&](const std::string& name, int64_t bytes) {
    fmt::print("{:16} {:>12} {:12.3f}\n", name, format_bytes(bytes),
               static_cast<double>(bytes) / static_cast<double>(least));
    result[name] = bytes;
  };
  fmt::print("\n{:16} {:>12} {:>12}\n", "reserved", "peak", "of live");
  line("direct", least);
  line("caching", reserved(sequence, "caching"));
  line("PyTorch's policy", reserved_by_torch(sequence));
  return result;
}

void run(int rounds, int steps, const std::string& file) {
  Sequence sequence = resnet50_step(32, 224);
  fmt::print("ResNet-50, batch 32, 224 pixels: {} requests a step, {} buffers held through it\n",
             sequence.step.size() / 2, sequence.before.size());
  std::fflush(stdout);  // before there are processes that have a copy of it
  std::vector<Contender> contenders{
      {"malloc, stock", [&] { return malloc_step(sequence); }, {}},
      {"malloc, tuned", [&] { return tuned_malloc_step(sequence); }, {}},
      {"direct", [&] { return account_step(sequence, "direct"); }, {}},
      {"caching", [&] { return account_step(sequence, "caching"); }, {}}};
  measure(contenders, sequence, rounds, steps);
  json result{{"requests", sequence.step.size() / 2}};
  result["time"] = report_time(contenders);
  result["reserved"] = report_reserved(sequence);
  if (!file.empty()) std::ofstream(file) << result.dump(2) << "\n";
}

}  // namespace
}  // namespace brim::bench

int main(int argc, char** argv) {
  CLI::App app("Allocation: nanoseconds of a request and its release, and reserved bytes.");
  int rounds = 21, steps = 20;
  std::string file;
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "steps in a round")->check(CLI::PositiveNumber);
  app.add_option("--json", file);
  CLI11_PARSE(app, argc, argv);
  brim::bench::run(rounds, steps, file);
}
