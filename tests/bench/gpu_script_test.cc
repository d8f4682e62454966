// bench/gpu.sh without a GPU: the tests that it packed, `train`, nvidia-smi, compute-sanitizer and
// PyTorch are stand-ins, some of which fail, hang or are missing.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"

using namespace brim::testing;
using Json = nlohmann::json;

namespace {

const std::string kGood =
    "echo 't.cc:9: MESSAGE: skipped: cuDNN (there is none)'\n"
    "echo '[doctest] test cases: 3 | 3 passed | 0 failed | 0 skipped'";
const std::string kBad =
    "echo 'ERROR: 1 is not 2'\n"
    "echo '[doctest] test cases: 3 | 2 passed | 1 failed | 0 skipped'; exit 1";

// A GPU of 1000 MiB, of which `train` takes 300 while it runs.
const std::string kSmi =
    "case \"$*\" in\n"
    "  *--id=0*) echo 300 ;;\n"
    "  *--query-gpu*) echo 'Stand-in GPU, 1.2, 1000, 0, 9.0, 1, 1, 1, 0' ;;\n"
    "  *) echo '| CUDA Version: 13.0 |' ;;\n"
    "esac";

std::string done(int predicted, int measured) {
  return R"({"event":"done","batch":256,"images_per_second":200,"predicted_peak_bytes":)" +
         std::to_string(predicted) + R"(,"peak_bytes":)" + std::to_string(measured) +
         R"(,"budget_violations":0,"mismatches":0})";
}

// `train`: what it writes to its --json, by model; a run without --json does nothing.
std::string train(const std::string& resnet50, const std::string& mobilenet) {
  return "while (( $# )); do case $1 in --json) json=$2;; --model) model=$2;; --batch) batch=$2;; "
         "esac; shift; done\n"
         "[[ -n ${json:-} ]] || exit 0\n"
         "if [[ $batch == auto ]]; then echo 'train: it does not fit'; exit 2; fi\n"
         "if [[ $model == resnet50 ]]; then echo '" +
         resnet50 + "' >$json; else echo '" + mobilenet + "' >$json; fi";
}

// A packed folder and a machine to run it on.
struct Machine {
  explicit Machine(const std::map<std::string, std::string>& tests) {
    std::filesystem::copy_file("bench/gpu.sh", at("gpu.sh"));
    std::filesystem::copy_file("bench/gpu_parts.py", at("gpu_parts.py"));
    std::string labels;
    for (const auto& [name, body] : tests) {
      program("root/tests/ops/" + name, body);
      labels += "//tests/ops:" + name + "\n";
    }
    text("tests.txt", labels);
    text("packed.txt", "commit 1234\nflags \n");
    program("bin/train", "echo 'train: device: no driver is installed' >&2; exit 1");
    // The whole PATH: what a machine with a GPU has of its own is not found.
    folder.make_folder("path");
    for (std::string name :
         {"awk", "bash", "cat", "chmod", "cp", "cut", "dirname", "du", "env", "find", "git", "grep",
          "ldd", "ls", "mkdir", "paste", "python3", "sleep", "sort"})
      std::filesystem::create_symlink("/usr/bin/" + name, at("path/" + name));
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  void text(const std::string& name, const std::string& text) const {
    folder.write(name, std::vector<uint8_t>(text.begin(), text.end()));
  }
  void program(const std::string& name, const std::string& body) const {
    text(name, "#!/usr/bin/bash\n" + body + "\n");
    std::filesystem::permissions(at(name), std::filesystem::perms::owner_all);
  }
  std::string environment() const {
    return "env -u CUDA_PATH CUDA_HOME=" + at("none") + " PATH=" + at("path") + " ";
  }
  /// Parts by name.
  std::map<std::string, Json> run(const std::string& arguments, int code) const {
    Finished run =
        run_command(environment() + at("gpu.sh") + " run " + at("out.json") + " " + arguments);
    CAPTURE(run.out);
    CAPTURE(run.err);
    CHECK(run.code == code);
    const Json report = Json::parse(text_of(at("out.json")));
    std::map<std::string, Json> parts;
    std::map<std::string, int> counts{{"passed", 0}, {"failed", 0}, {"skipped", 0}};
    for (const Json& part : report["parts"]) {
      CHECK(part["seconds"] >= 0);
      CHECK((part["status"] == "passed") == !part.contains("why"));
      ++counts.at(part["status"]);
      parts[part["name"]] = part;
    }
    CHECK(report["counts"] == Json(counts));
    return parts;
  }
  TempFolder folder;
};

}  // namespace

TEST_CASE("gpu.sh: without a GPU every part that needs one is skipped, and says why") {
  const Machine machine({{"good_test", kGood}});
  const auto parts = machine.run("", 0);
  CHECK(parts.size() > 10);
  for (const auto& [name, part] : parts) {
    CAPTURE(name);
    CHECK(part["status"] == (name == "machine" ? "passed" : "skipped"));
    if (name != "machine")
      CHECK(part["why"] ==
            "no GPU: nvidia-smi names none, and train: device: no driver is installed");
  }
  CHECK(parts.at("machine")["gpus"] == Json::array());
  CHECK(parts.at("machine")["packed"]["commit"] == "1234");
}

TEST_CASE("gpu.sh: tests that pass, fail, hang, crash or are missing") {
  const Machine machine({{"good_test", kGood},
                         {"bad_test", kBad},
                         {"hanging_test", "sleep 1000 & sleep 1000"},
                         {"crashing_test", "kill -SEGV $$"},
                         {"missing_test", ""}});
  machine.program("path/nvidia-smi", kSmi);
  machine.program("bin/train", train(done(1, 1), done(1, 1)));
  std::filesystem::remove(machine.at("root/tests/ops/missing_test"));
  auto parts = machine.run("--limit 2 --only machine --only _test", 1);
  CHECK(parts.at("machine")["gpus"][0]["name"] == "Stand-in GPU");
  CHECK(parts.at("machine")["cuda"] == "13.0");
  CHECK(parts.at("smoke")["status"] == "passed");

  const Json& good = parts.at("test //tests/ops:good_test");
  CHECK(good["status"] == "passed");
  CHECK(good["test_cases"]["passed"] == 3);
  CHECK(good["skips"][0] == Json{{"text", "skipped: cuDNN (there is none)"}, {"count", 1}});
  const Json& bad = parts.at("test //tests/ops:bad_test");
  CHECK(bad["why"] == "exit code 1");
  CHECK(bad["test_cases"]["failed"] == 1);
  CHECK(bad["output"].get<std::string>().starts_with("ERROR: 1 is not 2\n"));
  const Json& hanging = parts.at("test //tests/ops:hanging_test");
  CHECK(hanging["status"] == "failed");
  CHECK(hanging["why"] == "did not end within its limit (2 s)");
  CHECK(hanging["seconds"] < 30);
  CHECK(parts.at("test //tests/ops:crashing_test")["why"] == "ended by signal SIGSEGV");
  CHECK(parts.at("test //tests/ops:missing_test")["why"] ==
        "tests/ops/missing_test was not packed");

  CHECK(parts.at("memcheck //tests/ops:good_test")["why"] == "compute-sanitizer was not found");
  CHECK(parts.at("racecheck //tests/ops:bad_test")["status"] == "skipped");
  CHECK(!parts.contains("train resnet50 f16 batch 256"));
  machine.program("path/compute-sanitizer",
                  "[[ $2 == memcheck ]] || exit 86\nwhile [[ $1 == --* ]]; do shift 2; done; $1");
  parts = machine.run("--only check --limit 2", 1);
  CHECK(parts.at("memcheck //tests/ops:good_test")["status"] == "passed");
  CHECK(parts.at("memcheck //tests/ops:bad_test")["why"] == "exit code 1");
  CHECK(parts.at("racecheck //tests/ops:good_test")["why"] == "exit code 86");
}

TEST_CASE("gpu.sh: trainings are judged by their bytes, and compared where there is a peer") {
  const Machine machine({{"good_test", kGood}});
  machine.program("path/nvidia-smi", kSmi);
  machine.program("bin/train", train(done(1000, 1000), done(1000, 1024)));
  auto parts = machine.run("--only 'batch 256' --only auto --rounds 2", 1);
  const Json& good = parts.at("train resnet50 f16 batch 256");
  CHECK(good["status"] == "passed");
  CHECK(good["peak_bytes"] == 1000);
  CHECK(good["nvidia_smi"]["used_mib_before"] == 300);
  const std::vector<std::string> command = good["command"];
  CHECK(std::ranges::find(command, "900MiB") != command.end());
  CHECK(parts.at("train mobilenet_v2 f16 batch 256")["why"] ==
        "held 1024 bytes and not the predicted 1000");
  CHECK(parts.at("train resnet50 f16 batch auto")["why"] == "does not fit: train: it does not fit");
  // Nothing to compare with: the stand-in for the peer is not there.
  CHECK(parts.at("peer resnet50 f16 batch 256")["status"] == "skipped");

  machine.text("torch_gpu_step.py",
               "import json, sys\n"
               "if '--probe' not in sys.argv: print(json.dumps({'images_per_second': 250}))\n");
  parts = machine.run("--only 'peer resnet50 f32 batch 256' --rounds 2", 0);
  const Json& peer = parts.at("peer resnet50 f32 batch 256");
  CHECK(peer["rounds"] == 2);
  CHECK(peer["images_per_second"]["brim"] == Json{200, 200});
  CHECK(peer["ratio_of_seconds"]["brim / torch"]["median"] == 1.25);
  CHECK(peer["ratio_of_seconds"]["brim / torch without tf32"]["greatest"] == 1.25);
}

TEST_CASE("gpu.sh: what begins after the total limit is skipped") {
  const Machine machine({{"good_test", kGood}});
  machine.program("path/nvidia-smi", kSmi);
  const auto parts = machine.run("--total-limit 0", 0);
  CHECK(parts.at("test //tests/ops:good_test")["why"] == "the total limit was reached before it");
}

TEST_CASE("gpu.sh: pack gathers programs, tests and what they read") {
  const Machine machine({});
  machine.program("bench/gpu.sh", "");
  std::filesystem::remove(machine.at("bench/gpu.sh"));
  std::filesystem::copy_file("bench/gpu.sh", machine.at("bench/gpu.sh"));
  std::filesystem::copy_file("bench/gpu_parts.py", machine.at("bench/gpu_parts.py"));
  machine.text("bench/peers/torch_gpu_step.py", "");
  machine.program("path/bazel",
                  "case $1 in query) echo //tests/ops:abs_test ;;\n"
                  "  info) echo " +
                      machine.at("built") + " ;; esac");
  machine.program("built/examples/train", "exit 1");
  machine.program("built/tests/ops/abs_test.runfiles/brim/tests/ops/abs_test", kGood);
  machine.text("built/tests/ops/abs_test.runfiles/brim/ops/abs.cc", "// read by the test\n");
  const std::string pack =
      machine.environment() + machine.at("bench/gpu.sh") + " pack " + machine.at("packed");
  Finished run = run_command(pack);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  for (const char* file : {"gpu.sh", "gpu_parts.py", "torch_gpu_step.py", "bin/train",
                           "root/tests/ops/abs_test", "root/ops/abs.cc"})
    CHECK_MESSAGE(std::filesystem::exists(machine.at(std::string("packed/") + file)),
                  std::string(file));
  CHECK(text_of(machine.at("packed/tests.txt")) == "//tests/ops:abs_test\n");
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
