// bench/gpu.sh without a GPU: the tests that it packed, `train`, nvidia-smi, compute-sanitizer, ncu
// and PyTorch are stand-ins, some of which fail, hang or are missing.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "brim/tests/bench/stand_in_gpu.h"

using namespace brim::testing;
using Json = nlohmann::json;

TEST_CASE("gpu.sh: without a GPU every part that needs one is skipped, and says why") {
  const Machine machine({{"good_test", kGood}});
  const auto parts = machine.run("--list all", 0);
  CHECK(parts.size() > 10);
  for (const auto& [name, part] : parts) {
    CAPTURE(name);
    CHECK(part["status"] == (name == "machine" ? "passed" : "skipped"));
    if (name != "machine")
      CHECK(
          part["why"] ==
          "no GPU: nvidia-smi names none, and gpu_probe: no device cuda:0: no driver is installed");
  }
  CHECK(parts.at("machine")["gpus"] == Json::array());
  CHECK(parts.at("machine")["packed"]["commit"] == "1234");
  for (const auto& [name, bar] : machine.bars()) {
    CAPTURE(name);
    CHECK(bar["verdict"] == "not measured");
    const std::string why =
        name == "all other tests" ? "no such test was packed" : "no GPU: nvidia-smi names none";
    CHECK(bar["why"].get<std::string>().find(why) != std::string::npos);
  }
}

TEST_CASE("gpu.sh: where a step of the probe fails it is looked at closer, and nothing follows") {
  const Machine machine({{"good_test", kGood}});
  machine.add_gpu();
  machine.program(
      "bin/gpu_probe",
      "[[ $1 == product ]] || exit 0\n"
      "echo \"product differs${BRIM_CUDA_WAIT:+, waited for}${CHECKED:+, checked}\"; exit 1");
  machine.program("path/compute-sanitizer",
                  "while [[ $1 == --* ]]; do shift 2; done; CHECKED=1 \"$@\"");
  const auto parts = machine.run("", 1);
  CHECK(parts.at("probe kernel")["status"] == "passed");
  const Json& failed = parts.at("probe product");
  CHECK(failed["why"] == "exit code 1: product differs");
  CHECK(failed["closer"]["waiting after each op"] == "product differs, waited for\n");
  CHECK(failed["closer"]["under memcheck"] == "product differs, waited for, checked\n");
  for (const char* later :
       {"probe convolution", "bytes resnet50 f16 batch 256", "test tests/ops/good_test.cc"}) {
    CHECK(parts.at(later)["status"] == "skipped");
    CHECK(parts.at(later)["why"] ==
          "no GPU: the step 'product' of the probe failed: product differs");
  }
}

TEST_CASE("gpu.sh: tests that pass, fail, hang, crash or are missing") {
  const Machine machine({{"good_test", kGood},
                         {"bad_test", kBad},
                         {"hanging_test", "sleep 1000 & sleep 1000"},
                         {"crashing_test", "kill -SEGV $PPID; sleep 9"},
                         {"empty_test", "echo 'test cases: 0 | 0 passed | 0 failed'"}});
  machine.add_gpu();
  auto parts = machine.run("--limit 2 --jobs 3 --only machine --only _test", 1);
  CHECK(parts.at("machine")["gpus"][0]["name"] == "Stand-in GPU");
  CHECK(parts.at("machine")["cuda"] == "13.0");
  CHECK(parts.at("probe graph")["status"] == "passed");

  const Json& good = parts.at("test tests/ops/good_test.cc");
  CHECK(good["status"] == "passed");
  CHECK(good["test_cases"]["passed"] == 3);
  CHECK(good["skips"][0] == Json{{"text", "skipped: cuDNN (there is none)"}, {"count", 1}});
  const Json& bad = parts.at("test tests/ops/bad_test.cc");
  CHECK(bad["why"] == "exit code 1");
  CHECK(bad["test_cases"]["failed"] == 1);
  CHECK(bad["output"].get<std::string>().starts_with("ERROR: 1 is not 2\n"));
  const Json& hanging = parts.at("test tests/ops/hanging_test.cc");
  CHECK(hanging["status"] == "failed");
  CHECK(hanging["why"] == "did not end within its limit (2 s)");
  CHECK(hanging["seconds"] < 30);
  CHECK(parts.at("test tests/ops/crashing_test.cc")["why"] == "ended by signal SIGSEGV");
  CHECK(parts.at("test tests/ops/empty_test.cc")["why"] == "no test case was run");

  CHECK(parts.at("memcheck tests/ops/good_test.cc")["why"] == "compute-sanitizer was not found");
  CHECK(parts.at("racecheck tests/ops/bad_test.cc")["status"] == "skipped");
  CHECK(!parts.contains("bytes resnet50 f16 batch 256"));
  const Json ops = machine.bars().at("every op as on the CPU");
  CHECK(ops["verdict"] == "missed");
  CHECK(ops["measured"] == 3);  // what did not end shows nothing
  machine.program(
      "path/compute-sanitizer",
      "[[ $2 == memcheck ]] || exit 86\nwhile [[ $1 == --* ]]; do shift 2; done; \"$@\"");
  parts = machine.run("--only check --limit 2", 1);
  CHECK(parts.at("memcheck tests/ops/good_test.cc")["status"] == "passed");
  CHECK(parts.at("memcheck tests/ops/bad_test.cc")["why"] == "exit code 1");
  CHECK(parts.at("racecheck tests/ops/good_test.cc")["why"] == "exit code 86");
  // A kind of parts is not a piece of a name: each of these has "test" in it.
  CHECK(!machine.run("--only test --limit 2", 1).contains("memcheck tests/ops/good_test.cc"));
}

TEST_CASE("gpu.sh: a test program that does not start costs the tests alone") {
  const Machine machine({});
  machine.add_gpu();
  machine.program("bin/gpu_tests", "echo 'gpu_tests: libfmt.so.9 is not here'; exit 127");
  const auto parts = machine.run("--only bytes --only 'test list'", 1);
  CHECK(parts.at("test list")["status"] == "failed");
  CHECK(parts.at("test list")["why"] == "gpu_tests: exit code 127");
  CHECK(parts.at("bytes resnet50 f16 batch 256")["status"] == "passed");
}

TEST_CASE("gpu.sh: trainings that do as they should, beside PyTorch") {
  const Machine machine({});
  machine.add_gpu();
  machine.text("torch_gpu_step.py", kTorch);
  machine.program(
      "path/ncu",
      "cat <<'END'\n==PROF== Connected\n"
      "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"launch__registers_per_thread\"\n"
      "\"\",\"\",\"ns\",\"register/thread\"\n"
      "\"0\",\"normalise\",\"1,000\",\"32\"\n"
      "\"1\",\"normalise\",\"2,000\",\"32\"\nEND");
  const auto parts = machine.run("--list all --rounds 2", 1);
  CHECK(parts.at("agree resnet50 f32 batch 8")["apart"] == Json{0, 0, 0, 0, 0});
  CHECK(parts.at("counters")["kernels"] == Json{{"normalise",
                                                 {{"launches", 2},
                                                  {"gpu__time_duration.sum", 1500},
                                                  {"launch__registers_per_thread", 32}}}});
  const Json& bytes = parts.at("bytes resnet50 f16 batch 256")["runs"]["keep"];
  CHECK(bytes["peak_bytes"] == 256 << 20);
  CHECK(bytes["driver"]["by"] == "nvidia-smi");
  CHECK(bytes["driver"]["before_bytes"] == 300 << 20);
  CHECK(bytes["driver"]["process_bytes"] == 356 << 20);
  CHECK(parts.at("auto free")["runs"]["batch auto"]["batch"] == 800);
  CHECK(parts.at("auto free")["one_more"]["exit"] == 2);
  CHECK(parts.at("same mobilenet_v2")["runs"]["keep all"]["losses"] == Json{7.25, 7.125, 7.0});

  const Json& peer = parts.at("peer resnet50 f16 batch 256");
  CHECK(peer["rounds"] == 2);
  CHECK(peer["images_per_second"]["brim"] == Json{250, 250});
  CHECK(peer["times_as_fast"]["brim / torch"]["median"] == 1.25);
  CHECK(peer["times_as_fast"]["brim by heuristics / torch"]["least"] == 1.25);
  const std::vector<std::string> command = peer["last"]["brim"]["command"];
  CHECK(std::ranges::find(command, "--cudnn-benchmark") != command.end());
  // One contestant that fails does not cost the others.
  const Json& failed = parts.at("peer resnet50 f32 batch 256");
  CHECK(failed["why"] == "torch: exit code 1");
  CHECK(failed["output"] == "torch: spoiled\n");
  CHECK(failed["times_as_fast"]["brim without tf32 / torch without tf32"]["median"] == 1.25);

  const auto bars = machine.bars();
  auto verdict = [&](const std::string& name) { return bars.at(name)["verdict"]; };
  for (const std::string met :
       {"predicted peaks are the account's", "predicted peak and context are the driver's",
        "the driver counts no more than the budget", "--batch auto at 90% of the card runs",
        "one image more is refused before a step", "out-of-memory events",
        "times the batch by recomputation, 25% of the card", "the same losses with --cuda-graph",
        "the same losses with --planner direct",
        "the same losses with --offload auto in a smaller budget",
        "resnet50 f16 batch 256: times as fast as PyTorch",
        "resnet50 f16 batch 256: peak live, of PyTorch's"}) {
    CAPTURE(met);
    CHECK(verdict(met) == "met");
  }
  CHECK(verdict("mobilenet_v2 f16 batch 256: times as fast as PyTorch") == "missed");
  CHECK(verdict("resnet50 f32 batch 256: times as fast as PyTorch") == "not measured");
}

TEST_CASE("gpu.sh: wrong bytes, other losses, a batch that is not refused, no peer") {
  const Machine machine({});
  machine.add_gpu({{"--model mobilenet_v2 --size 224 --precision f16 --batch 256",
                    {{"peak_bytes", 1}, {"budget_violations", 1}}},
                   {"--planner caching", {{"losses", {7.25, 7.125, 7.000000001}}}},
                   {"--cuda-graph", {{"exit", 1}}},
                   {"--recompute free", {{"batch", 100}}},
                   {"--batch 101", {{"unwatched", true}}},
                   {"--recompute off --offload off --budget", {{"exit", 2}}}});
  const auto parts = machine.run("--only bytes --only auto --only same --only peer", 1);
  auto why = [&](const std::string& name) { return parts.at(name)["why"].get<std::string>(); };
  CHECK(why("bytes mobilenet_v2 f16 batch 256") ==
        "keep: held 1 bytes and not the predicted 268435456; keep: went over its budget");
  CHECK(parts.at("bytes resnet50 f16 batch 256")["status"] == "passed");
  CHECK(why("same resnet50") == "cuda graph: exit code 1; caching: 1 losses differ");
  CHECK(parts.at("same resnet50")["runs"]["offload"]["remedies"] == Json{"offload"});
  CHECK(why("auto free") == "batch 101: was not refused, after 3 steps");
  CHECK(why("auto recompute 25% of the card") == "off: does not fit: it said nothing");
  CHECK(parts.at("auto recompute 25% of the card")["runs"]["auto"]["batch"] == 300);
  // Nothing to compare with: the stand-in for the peer is not there.
  CHECK(parts.at("peer resnet50 f16 batch 256")["status"] == "skipped");
}

TEST_CASE("gpu.sh: what begins after the total limit is skipped, and done by a run that goes on") {
  const Machine machine({{"good_test", kGood}});
  machine.add_gpu();
  const std::string test = "test tests/ops/good_test.cc", bytes = "bytes resnet50 f16 batch 256";
  auto parts = machine.run("--total-limit 0", 0);
  CHECK(parts.at(test)["why"] == "the total limit was reached before it");
  CHECK(machine.run("--only test", 0).at(test)["status"] == "passed");

  const std::string again = "--after " + machine.at("out.json");
  machine.program("cases/good_test.cc", kBad);  // it is not run again
  parts = machine.run(again + " --only test --only 'bytes resnet50 f16 batch 256'", 0);
  CHECK(parts.at(test)["status"] == "passed");
  CHECK(parts.at(bytes)["status"] == "passed");
  machine.text("packed.txt", "commit 5678\nflags \n");
  const Finished other = run_command(machine.environment() + machine.at("gpu.sh") + " run " +
                                     machine.at("other.json") + " " + again);
  CHECK(other.code == 1);
  CHECK(other.err.find("different builds") != std::string::npos);
}

TEST_CASE("gpu.sh: a part that the total limit cuts is not one that failed") {
  const Machine machine({{"good_test", kGood}, {"hanging_test", "sleep 1000"}});
  machine.add_gpu();
  const auto parts = machine.run("--total-limit 3 --only test", 0);
  const std::string why = parts.at("test tests/ops/hanging_test.cc")["why"];
  CHECK(why.starts_with("the total limit was reached"));
}

TEST_CASE("gpu.sh: what was found before the total limit came is a failure") {
  const Machine machine({});
  machine.add_gpu(
      {{"--planner caching", {{"losses", {1, 2, 3}}}}, {"--planner direct", {{"hang", true}}}});
  const auto parts = machine.run("--total-limit 12 --only 'same resnet50'", 1);
  CHECK(parts.at("same resnet50")["status"] == "failed");
  CHECK(parts.at("same resnet50")["why"].get<std::string>().find("caching: 3 losses differ") !=
        std::string::npos);
}

TEST_CASE("gpu.sh: pack gathers programs, tests and what they read") {
  const Machine machine({});
  machine.program("bench/gpu.sh", "");
  std::filesystem::remove(machine.at("bench/gpu.sh"));
  for (const std::string& script : kScripts)
    std::filesystem::copy_file("bench/" + script, machine.at("bench/" + script));
  machine.text("bench/peers/torch_gpu_step.py", "");
  machine.program("path/bazel", "[[ $1 != info ]] || echo " + machine.at("built"));
  for (const char* program : {"apps/train", "bench/gpu_probe", "tests/gpu/gpu_tests",
                              "tests/gpu/gpu_tests.runfiles/brim/tests/gpu/gpu_tests"})
    machine.program(std::string("built/") + program, "exit 1");
  machine.text("built/tests/gpu/gpu_tests.runfiles/brim/ops/abs.cc", "// read by a test\n");
  const std::string pack =
      machine.environment() + machine.at("bench/gpu.sh") + " pack " + machine.at("packed");
  Finished run = run_command(pack);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  const std::vector<std::string> files{"gpu.sh",          "gpu_bars.py",   "gpu_machine.py",
                                       "gpu_parts.py",    "gpu_run.py",    "torch_gpu_step.py",
                                       "bin/train",       "bin/gpu_probe", "bin/gpu_tests",
                                       "root/ops/abs.cc", "packed.txt"};
  for (const std::string& file : files)
    CHECK_MESSAGE(std::filesystem::exists(machine.at("packed/" + file)), file);
  const std::string inside = run_command("tar tJf " + machine.at("packed.tar.xz")).out;
  for (const std::string& file : files)
    CHECK_MESSAGE(inside.find("packed/" + file) != std::string::npos, file);
  // Never over what is there.
  run = run_command(pack);
  CHECK(run.code == 1);
  CHECK(run.err == "gpu.sh: " + machine.at("packed") + " is not empty\n");
}

TEST_CASE("gpu.sh: says how it is used") {
  CHECK(run_command("bench/gpu.sh --help").out.starts_with("gpu.sh pack FOLDER"));
  CHECK(run_command("bench/gpu.sh").code == 1);
  CHECK(run_command("bench/gpu.sh run").err.find("is not a packed folder") != std::string::npos);
}
