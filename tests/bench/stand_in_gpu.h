// A machine with a GPU for tests of bench/gpu.sh, without one: a packed folder whose programs,
// nvidia-smi, PyTorch and the rest are scripts that do as a test says.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"

namespace brim::testing {

inline const std::vector<std::string> kScripts{"gpu.sh", "gpu_bars.py", "gpu_machine.py",
                                               "gpu_parts.py", "gpu_run.py"};

inline const std::string kGood =
    "echo 't.cc:9: MESSAGE: skipped: cuDNN (there is none)'\n"
    "echo '[doctest] test cases: 3 | 3 passed | 0 failed | 0 skipped'";
inline const std::string kBad =
    "echo 'ERROR: 1 is not 2'\n"
    "echo '[doctest] test cases: 3 | 2 passed | 1 failed | 0 skipped'; exit 1";

// A GPU of 1000 MiB, of which others hold 300 and `train` what it writes into `taken`.
inline std::string smi(const std::string& folder) {
  return "case \"$*\" in\n"
         "  *--id=0*) if [[ -f " +
         folder + "/taken ]]; then cat " + folder + "/taken; : >" + folder +
         "/asked; else echo 300; fi ;;\n"
         "  *--query-gpu*) echo 'Stand-in GPU, 1.2, 1000, 0, 9.0, 1, 1, 1, 0' ;;\n"
         "  *) echo '| CUDA Version: 13.0 |' ;;\n"
         "esac";
}

// `train`, which takes 1 MiB an image (half of it recomputed, twice of it kept) and as much as a
// context of 100 MiB. Where its command has the words of an entry of spoil.json it does not do
// well: that replaces what `done` says, or is its "exit". Waits until nvidia-smi has seen it.
inline const char* const kTrain = R"(#!/usr/bin/env python3
import json, os, sys, time
words = sys.argv[1:]
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(here + "/spoil.json") as file:
    spoiled = {key: value for text, found in json.load(file).items() if text in " ".join(words)
               for key, value in found.items()}
def flag(name, default=None):
    return words[words.index(name) + 1] if name in words else default
if spoiled.get("exit"):
    sys.exit("train: spoiled" if spoiled["exit"] == 1 else spoiled["exit"])
if spoiled.get("hang"):
    time.sleep(1000)
if not flag("--json"):
    sys.exit()
mib, recompute, budget = 1 << 20, flag("--recompute", "free"), flag("--budget")
each = {"off": 2, "free": 1, "auto": 0.5}[recompute]
batch = int((int(budget) // mib - 100) / each) if flag("--batch") == "auto" else int(flag("--batch"))
remedies = [name for name in ("recompute", "offload") if budget and flag("--" + name) == "auto"]
peak = int(batch * each * mib)
if budget and flag("--offload") == "auto":
    peak = min(peak, int(budget) - 100 * mib)
events = [{"event": "plan", "remedies": remedies}]
if budget and peak + 100 * mib > int(budget):
    events = [{"event": "refused", "needed_bytes": peak}]
else:
    losses = spoiled.get("losses", [7.25, 7.125, 7.0] + ([6.75, 6.5] if flag("--steps") == "5" else []))
    events += [{"event": "step", "loss": loss} for loss in losses]
    done = {"event": "done", "batch": batch, "images_per_second": 250, "peak_bytes": peak, "peak_live_bytes": peak,
            "predicted_peak_bytes": peak, "predicted_peak_live_bytes": peak, "context_bytes": 100 * mib,
            "context_growth_bytes": 0, "budget_violations": 0, "mismatches": 0, "oom_events": 0}
    if budget:
        done["budget_bytes"] = int(budget)
    if "--cuda-graph" in words:
        done.update(graph_steps=2, why_no_graph="")
    events.append({**done, **spoiled})
    if (budget or flag("--steps") == "8") and not spoiled.get("unwatched"):
        with open(here + "/taken.part", "w") as file:
            print(400 + peak // mib, file=file)
        os.rename(here + "/taken.part", here + "/taken")
        until = time.monotonic() + 20
        while not os.path.exists(here + "/asked") and time.monotonic() < until:
            time.sleep(0.01)
        os.remove(here + "/taken")
        os.remove(here + "/asked")
with open(flag("--json"), "w") as file:
    for event in events:
        print(json.dumps(event), file=file)
if "refused" in events[0].values():
    print("train: it does not fit")
    sys.exit(2)
)";

// PyTorch, with twice the bytes and less speed; does not know resnet50 in float32.
inline const char* const kTorch = R"(
import json, sys
if "--probe" not in sys.argv:
    if "f32" in sys.argv and "--no-tf32" not in sys.argv: sys.exit("torch: spoiled")
    peak = 2 * int(sys.argv[sys.argv.index("--batch") + 1]) << 20
    print(json.dumps({"images_per_second": 200, "peak_bytes": peak, "peak_live_bytes": peak}))
)";

// The test program: the cases of a file are a script of that name, all of them one that passes.
inline std::string tests(const std::string& folder) {
  return "cd " + folder +
         "/cases\n"
         "if [[ $1 == --list-test-cases ]]; then\n"
         "  for file in *; do echo \"<TestCase name='a' filename=\\\"tests/ops/$file\\\"/>\"; "
         "done\n"
         "elif [[ $1 == --source-file=*.cc ]]; then ./${1##*/}\n"
         "else echo \"test cases: 9 | 9 passed | 0 failed\"; fi";
}

// A packed folder and a machine to run it on.
struct Machine {
  explicit Machine(const std::map<std::string, std::string>& cases) {
    for (const std::string& script : kScripts)
      std::filesystem::copy_file("bench/" + script, at(script));
    for (const auto& [name, body] : cases) program("cases/" + name + ".cc", body);
    folder.make_folder("root");
    text("packed.txt", "commit 1234\nflags \n");
    program("bin/train", "echo 'train: device: no driver is installed' >&2; exit 1");
    program("bin/gpu_tests", tests(folder.path()));
    program("bin/gpu_probe", "echo 'gpu_probe: no device cuda:0: no driver is installed'; exit 1");
    // The whole PATH: what a machine with a GPU has of its own is not found.
    folder.make_folder("path");
    for (std::string name : {"awk",     "bash", "cat",   "chmod", "cp",  "cut", "dirname", "du",
                             "env",     "find", "git",   "grep",  "ldd", "ls",  "mkdir",   "paste",
                             "python3", "rm",   "sleep", "sort",  "tar", "xz"})
      std::filesystem::create_symlink("/usr/bin/" + name, at("path/" + name));
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  void text(const std::string& name, const std::string& text) const {
    folder.write(name, std::vector<uint8_t>(text.begin(), text.end()));
  }
  void program(const std::string& name, const std::string& body) const {
    text(name, (body.starts_with("#!") ? "" : "#!/usr/bin/bash\n") + body + "\n");
    std::filesystem::permissions(at(name), std::filesystem::perms::owner_all);
  }
  /// A GPU, and a `train` that trains on it.
  void add_gpu(const nlohmann::json& spoiled = nlohmann::json::object()) const {
    program("path/nvidia-smi", smi(folder.path()));
    program("bin/train", kTrain);
    program("bin/gpu_probe", "echo \"$1: apart by 0\"");
    text("spoil.json", spoiled.dump());
  }
  std::string environment() const {
    return "env -u CUDA_PATH BRIM_NVML=none CUDA_HOME=" + at("none") + " PATH=" + at("path") + " ";
  }
  std::map<std::string, nlohmann::json> bars() const {
    std::map<std::string, nlohmann::json> bars;
    const nlohmann::json report = nlohmann::json::parse(text_of(at("out.json")));
    for (const nlohmann::json& bar : report["bars"]) bars[bar["name"]] = bar;
    return bars;
  }
  /// Parts by name.
  std::map<std::string, nlohmann::json> run(const std::string& arguments, int code) const {
    Finished run =
        run_command(environment() + at("gpu.sh") + " run " + at("out.json") + " " + arguments);
    CAPTURE(run.out);
    CAPTURE(run.err);
    CHECK(run.code == code);
    const nlohmann::json report = nlohmann::json::parse(text_of(at("out.json")));
    std::map<std::string, nlohmann::json> parts;
    std::map<std::string, int> counts{{"passed", 0}, {"failed", 0}, {"skipped", 0}};
    for (const nlohmann::json& part : report["parts"]) {
      CHECK(part["seconds"] >= 0);
      CHECK((part["status"] == "passed") == !part.contains("why"));
      ++counts.at(part["status"]);
      parts[part["name"]] = part;
    }
    CHECK(report["counts"] == nlohmann::json(counts));
    return parts;
  }
  TempFolder folder;
};

}  // namespace brim::testing
