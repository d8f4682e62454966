// setup.sh on machines that are not this one: every program that it calls is a stand-in.
#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "brim/tests/support/subprocess.h"

using namespace brim::testing;

namespace {

// Flags in /proc/cpuinfo of a processor without AVX-512.
const std::string kV3 = "avx2 fma bmi1 bmi2 f16c abm movbe";

// A folder of stand-ins, the whole PATH of the script.
struct Machine {
  explicit Machine(bool installed, const std::string& user) {
    add("dpkg-query", installed ? "echo -n installed" : "exit 1");
    add("id", "echo " + user);
    add("apt-get", "echo \"$@\"");
    for (std::string name :
         {"awk",   "bash",  "cksum", "cp", "cut", "date", "dirname", "env", "find", "head",
          "mkdir", "paste", "pwd",   "rm", "sed", "sort", "tail",    "tr",  "uniq", "xargs"})
      std::filesystem::create_symlink("/usr/bin/" + name, folder.path() + "/" + name);
    add("g++", "exit 0");
    has_processor(kV3);
  }
  /// With these flags in /proc/cpuinfo.
  void has_processor(const std::string& flags) {
    add("grep", "[[ ${!#} == /proc/cpuinfo ]] || exec /usr/bin/grep \"$@\"\n[[ ' " + flags +
                    " ' == *\" $2 \"* ]]");
  }
  void add(const std::string& name, const std::string& body) {
    std::string text = "#!/usr/bin/bash\n" + body + "\n";
    folder.write(name, std::vector<uint8_t>(text.begin(), text.end()));
    std::filesystem::permissions(folder.path() + "/" + name, std::filesystem::perms::owner_all);
  }
  Finished setup(const std::string& arguments) const {
    return run_command("HOME=" + folder.path() + " PATH=" + folder.path() + " ./setup.sh " +
                       arguments);
  }
  TempFolder folder;
};

}  // namespace

TEST_CASE("without root and sudo, the packages to install are named") {
  Finished run = Machine(false, "1000").setup("");
  CHECK(run.code == 1);
  CHECK(run.err.find("setup.sh: run as root, or install these yourself: g++ bazel-bootstrap") == 0);
}

TEST_CASE("with sudo, or as root, what is missing is installed, and said") {
  for (bool root : {false, true}) {
    Machine machine(false, root ? "0" : "1000");
    if (!root) machine.add("sudo", "\"$@\"");
    Finished run = machine.setup("");
    CHECK(run.code == 0);
    CHECK(run.out.find("setup.sh: installing g++ bazel-bootstrap") == 0);
    CHECK(run.out.find("--no-install-recommends g++ bazel-bootstrap") != std::string::npos);
  }
}

TEST_CASE("a network that fails for a while is tried again, and not for ever") {
  Machine machine(false, "0");
  machine.add("sleep", "echo waited $1");
  // Fails while a file "1" or "2" of its folder is there, and takes one away.
  const std::string tries = machine.folder.path() + "/tries";
  machine.add("apt-get", "for f in " + tries + "/*; do [[ -e $f ]] && rm $f && exit 7; done\n" +
                             "echo \"$@\"");
  machine.folder.write("tries/1", {});
  machine.folder.write("tries/2", {});
  Finished run = machine.setup("");
  CHECK(run.code == 0);
  CHECK(run.out.find("waited 10\nwaited 10\nupdate -qq\ninstall -qq") != std::string::npos);
  CHECK(run.err.find("setup.sh: try 2 of 3 failed: env DEBIAN_FRONTEND=noninteractive apt-get") !=
        std::string::npos);
  machine.add("apt-get", "exit 7");
  CHECK(machine.setup("").code == 7);
}

TEST_CASE("where all is installed, nothing is done") {
  Finished run = Machine(true, "1000").setup("");
  CHECK(run.code == 0);
  CHECK(run.out == "setup.sh: every package is installed\n");
}

TEST_CASE("an unknown option is refused by name") {
  Finished run = Machine(true, "0").setup("--tset");
  CHECK(run.code == 1);
  CHECK(run.err.find("unknown option --tset") != std::string::npos);
}

TEST_CASE("--help says what there is, and does nothing") {
  const Finished run = Machine(false, "0").setup("--help");
  CHECK(run.code == 0);
  CHECK(run.out.starts_with("Installs what brim needs from Debian; safe to run twice.\n"));
  CHECK(run.out.find("\n  ./setup.sh --test       then run every test") != std::string::npos);
  CHECK(run.out.find("installing") == std::string::npos);
  CHECK(run.out.find("set -euo") == std::string::npos);
}

namespace {

// `--run` in a tree of its own, with an example that says how it was called.
Finished run_example(Machine& machine, const std::string& arguments,
                     const std::string& name = "tree") {
  const std::string tree = machine.folder.path() + "/" + name;
  machine.add("bazel", "echo \"bazel $*\"");
  machine.folder.make_folder(name + "/bazel-bin/apps");
  std::filesystem::copy_file("setup.sh", tree + "/setup.sh",
                             std::filesystem::copy_options::overwrite_existing);
  machine.add(name + "/bazel-bin/apps/train", "pwd; echo \"$# arguments: $*\"; exit 5");
  return run_command("cd /usr/share && PATH=" + machine.folder.path() + " '" + tree +
                     "/setup.sh' --run " + arguments);
}

const std::string kInstalled = "setup.sh: every package is installed\n";
const bool kHasDriver =
    std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
const std::string kNoCuda = kHasDriver ? "" : " --config=nocuda";

}  // namespace

TEST_CASE("--run builds the example for this machine and runs it where the caller stands") {
  Machine machine(true, "0");
  const std::string before = kInstalled + "bazel build --define=brim_kernels=baseline" + kNoCuda +
                             " //apps:train\n/usr/share\n";
  const Finished plain = run_example(machine, "");
  CHECK(plain.out == before + "6 arguments: --data shapes --model resnet20 --epochs 3\n");
  CHECK(plain.err.starts_with("setup.sh: builds for this processor alone"));
  if (!kHasDriver) CHECK(plain.err.find("without CUDA, as there is no driver") != plain.err.npos);
  CHECK(plain.code == 5);
  CHECK(run_example(machine, "--data 'my photos'").out ==
        before + "2 arguments: --data my photos\n");
}

TEST_CASE("a clone in a path with a space, where Bazel builds nothing, is named at once") {
  Machine machine(true, "0");
  const Finished run = run_example(machine, "", "my tree");
  CHECK(run.code == 1);
  CHECK(run.out.empty());
  CHECK(run.err.find("setup.sh: Bazel builds nothing in a folder with a space in its path; move "
                     "brim out of '" +
                     machine.folder.path() + "/my tree'\n") != run.err.npos);
}

TEST_CASE("--run takes AVX-512 where the processor has all of it") {
  Machine machine(true, "0");
  machine.has_processor(kV3 + " avx512f avx512bw avx512cd avx512dq");
  CHECK(run_example(machine, "").out.find("brim_kernels=baseline ") != std::string::npos);
  machine.has_processor(kV3 + " avx512f avx512bw avx512cd avx512dq avx512vl");
  CHECK(run_example(machine, "").out.find("brim_kernels=x86-64-v4 ") != std::string::npos);
}

TEST_CASE("--run --full builds the example for every machine") {
  Machine machine(true, "0");
  const Finished run = run_example(machine, "--full --epochs 1");
  CHECK(run.out ==
        kInstalled + "bazel build //apps:train\n/usr/share\n2 arguments: --epochs 1\n");
}

TEST_CASE("--run ends before it builds where this machine is not up to it") {
  Machine machine(true, "0");
  machine.has_processor("avx fma");
  Finished run = run_example(machine, "");
  CHECK(run.code == 1);
  CHECK(run.out == kInstalled);
  CHECK(run.err == "setup.sh: this processor lacks avx2, a part of x86-64-v3, which brim needs\n");

  machine.has_processor(kV3);
  machine.add("g++", "[[ $1 == --version ]] && echo 'g++ (Debian) 9.4'; exit 1");
  run = run_example(machine, "");
  CHECK(run.code == 1);
  CHECK(run.out == kInstalled);
  CHECK(run.err.find(
            "setup.sh: brim is C++20, which this compiler is not up to: g++ (Debian) 9.4\n") !=
        std::string::npos);
}

namespace {

// What `bazel test` leaves behind for one test: its log, and Bazel's own verdict.
struct Log {
  std::string text;
  bool succeeded;
};

const std::string kPassed = "[doctest] test cases: 3 | 3 passed | 0 failed | 0 skipped\n";
const std::string kFailed = "[doctest] test cases: 4 | 2 passed | 2 failed | 0 skipped\n";
const std::string kSkipped = "t.cc:9: MESSAGE: skipped: relu on CUDA against the CPU (no GPU)\n";

// setup.sh --test with a bazel that leaves these logs and this exit code, three times.
Finished test_run(const std::vector<Log>& logs, int code) {
  Machine machine(true, "0");
  const std::string left = machine.folder.path() + "/left";
  for (size_t i = 0; i < logs.size(); ++i) {
    auto write = [&](const std::string& name, const std::string& text) {
      machine.folder.write("left/" + std::to_string(i) + "/" + name,
                           std::vector<uint8_t>(text.begin(), text.end()));
    };
    write("test.log", logs[i].text);
    write("test.xml", std::string("<?xml version=\"1.0\"?>\n<testsuites>\n<testsuite errors=\"") +
                          (logs[i].succeeded ? "0" : "1") + "\">\n");
  }
  const std::string testlogs = machine.folder.path() + "/testlogs";
  machine.add("bazel", "if [[ $1 == info ]]; then echo " + testlogs +
                           "; exit; fi\n[[ $1 != query ]] || { echo //a:a_test; exit; }\n[[ ! -d " +
                           left + " ]] || cp -r " + left + " " + testlogs + "\nexit " +
                           std::to_string(code));
  return machine.setup("--test");
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

TEST_CASE("the last line counts test cases over the three runs") {
  Finished run = test_run({{kPassed, true}, {"a snippet has no cases\n", true}}, 0);
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK(ends_with(run.out, "\n12 passed, 0 failed\n"));
}

TEST_CASE("sanitizers stop when the time is over, and what has failed until then counts") {
  for (const bool fails : {false, true}) {
    Machine machine(true, "0");
    for (std::string name : {"sleep", "timeout"})
      std::filesystem::create_symlink("/usr/bin/" + name, machine.folder.path() + "/" + name);
    // Each run leaves a log of //a:a_test; that of the sanitizers goes on and on.
    const std::string logs = machine.folder.path() + "/testlogs", of_a = logs + "/a/a_test";
    const std::string verdict = "<?xml?>\\n<testsuites>\\n<testsuite errors=\\\"0\\\">";
    machine.add("bazel", "if [[ $1 == info ]]; then echo " + logs + "; exit; fi\n" +
                             "[[ $1 != query ]] || { echo //a:a_test; echo //b:b_test; "
                             "echo //c:c_test; exit; }\n" +
                             "mkdir -p " + of_a + " " + logs + "/c/c_test\ntouch " + logs +
                             "/c/c_test/test.log\necho -e \"" + verdict + "\" >" + of_a +
                             "/test.xml\necho '" + kPassed + "' >" + of_a +
                             "/test.log\n[[ $* != *sanitize* ]] || { " +
                             (fails ? "echo '" + kFailed + "' >" + of_a + "/test.log; " : "") +
                             "exec sleep 100; }");
    const Finished run = run_command("BRIM_TEST_SECONDS=2 HOME=" + machine.folder.path() +
                                     " PATH=" + machine.folder.path() + " ./setup.sh --test");
    CAPTURE(run.out);
    CAPTURE(run.err);
    const std::string skipped =
        "      1 test, for want of time: bazel test --config=sanitize //b:b_test\n"
        "      1 test, for want of time: bazel test --config=sanitize //c:c_test\n";
    // c was begun, and is all the same not one that was run.
    CHECK(run.out.find(skipped) != std::string::npos);
    CHECK(run.out.find("//a:a_test") == std::string::npos);
    CHECK(run.code == (fails ? 1 : 0));
    CHECK(ends_with(run.out, fails ? "\n8 passed, 2 failed\n" : "\n9 passed, 0 failed\n"));
  }
}

TEST_CASE("failed cases, crashes and tests that do not build are failures") {
  struct {
    std::vector<Log> logs;
    int code;
    std::string last;
  } const runs[] = {
      {{{kPassed, true}, {kFailed, false}}, 3, "\n15 passed, 6 failed\n"},
      {{{kPassed, false}}, 3, "\n9 passed, 3 failed\n"},         // a leak after the cases
      {{{"terminated\n", false}}, 3, "\n0 passed, 3 failed\n"},  // before the first
      {{{kPassed, true}}, 3, "\n9 passed, 3 failed\n"},          // no log of the failed one
      {{{kPassed, true}}, 1, "\n9 passed, 3 failed\n"},          // a target was not built
      {{}, 1, "\n0 passed, 3 failed\n"},                         // nothing was
      {{}, 4, "\n0 passed, 0 failed\n"},                         // there are no tests at all
  };
  for (const auto& [logs, code, last] : runs) {
    CAPTURE(last);
    Finished run = test_run(logs, code);
    CAPTURE(run.out);
    CHECK(run.code != 0);
    CHECK(ends_with(run.out, last));
  }
}

TEST_CASE("what tests left out is said before the last line") {
  Finished run = test_run({{kSkipped + kSkipped + kPassed, true}}, 0);
  CHECK(run.code == 0);
  CHECK(run.out.find("setup.sh: skipped checks:\n      2 on CUDA against the CPU (no GPU)") !=
        std::string::npos);
}

TEST_CASE("every way in which a test says that it skips is counted") {
  const std::string ways[] = {"halves on CUDA (no GPU)", "late work (no emulated GPU)",
                              "cuDNN's engines (no library)", "there is a GPU",
                              "abs on CUDA against the CPU (abs has no kernel on CUDA (yet))"};
  const std::string told[] = {"on CUDA (no GPU)", "late work (no emulated GPU)",
                              "cuDNN's engines (no library)", "there is a GPU",
                              "on CUDA against the CPU (abs has no kernel on CUDA (yet))"};
  std::string log = kPassed;
  for (const std::string& way : ways) log += "t.cc:9: MESSAGE: skipped: " + way + "\n";
  Finished run = test_run({{log, true}}, 0);
  CAPTURE(run.out);
  for (const std::string& line : told)
    CHECK(run.out.find("      1 " + line + "\n") != std::string::npos);
  CHECK(run.out.find("0 skipped") == std::string::npos);
}

TEST_CASE("the cache of builds loses what was read longest ago, down to a size") {
  TempFolder folder;
  folder.make_folder("cache/cas");
  const std::string cache = folder.path() + "/cache";
  for (std::string name : {"a", "b", "c d", "e"})
    folder.write("cache/cas/" + name, std::vector<uint8_t>(1024));
  run_command("cd " + cache +
              "/cas && touch -a -d '3 days ago' 'c d' && touch -a -d '2 days ago' a");
  auto left = [&](int kib) {
    Finished run = run_command("bazel/trim_cache.sh " + cache + " " + std::to_string(kib));
    CHECK(run.code == 0);
    CHECK(run.err.empty());
    return run_command("ls -m " + cache + "/cas").out;
  };
  CHECK(left(4) == "a, b, c d, e\n");
  CHECK(left(3) == "a, b, e\n");
  CHECK(left(2) == "b, e\n");
  CHECK(left(0).empty());
  CHECK(run_command("bazel/trim_cache.sh " + folder.path() + "/none 5").code == 0);
}

namespace {

// A tree with a history, and a bazel that knows two tests: what is in a/ affects one, what is in b/
// the other.
struct History {
  History() : machine(true, "0") {
    for (std::string name : {"git", "cat"})
      std::filesystem::create_symlink("/usr/bin/" + name, machine.folder.path() + "/" + name);
    std::filesystem::remove(machine.folder.path() + "/date");  // a test has its own
    machine.add("bazel", "echo \"${!#}\" >>" + machine.folder.path() + "/queries\n" +
                             "[[ ${!#} == *rdeps* && ${!#} != *//a:* ]] || echo //a:a_test\n"
                             "[[ ${!#} == *rdeps* && ${!#} != *//b:* ]] || echo //b:b_test");
    run("mkdir -p a b bazel && touch a/BUILD b/BUILD && cp " +
        std::filesystem::absolute(".bazelrc").string() + " . && cp " +
        std::filesystem::absolute("bazel/test_tiers.sh").string() + " bazel && git init -q");
  }
  Finished run(const std::string& command) {
    machine.folder.make_folder("tree");
    return run_command("cd " + machine.folder.path() +
                       "/tree && export HOME=" + machine.folder.path() +
                       " PATH=" + machine.folder.path() + ":/usr/bin && " + command);
  }
  void commit(const std::string& file) {
    const Finished done = run("echo again >>" + file +
                              " && git add . && git -c user.name=a -c user.email=a@b commit -qm x");
    REQUIRE_MESSAGE(done.code == 0, done.err);
  }
  std::string tiers() { return run("bazel/test_tiers.sh sanitize").out; }

  Machine machine;
};

}  // namespace

TEST_CASE("tests that a change can affect come before those of recent commits, and the others") {
  if (run_command("git --version").code != 0) {
    MESSAGE("skipped: the order of tests by their history (there is no git)");
    return;
  }
  History history;
  history.commit("a/first.cc");
  CHECK(history.tiers() == "change //a:a_test\nchange //b:b_test\n");  // there is no commit before

  for (int i = 0; i < 20; ++i) history.commit("a/first.cc");
  history.commit("b/second.cc");
  CHECK(history.tiers() == "change //b:b_test\nrecent //a:a_test\n");
  for (int i = 0; i < 20; ++i) history.commit("b/second.cc");
  int days = 0;  // of five
  for (int day = 0; day < 5; ++day) {
    history.machine.add("date", "echo " + std::to_string((20'000 + day) * 86'400));
    const std::string tiers = history.tiers();
    days += tiers == "change //b:b_test\ntoday //a:a_test\n";
    CHECK((tiers == "change //b:b_test\nrest //a:a_test\n" ||
           tiers == "change //b:b_test\ntoday //a:a_test\n"));
  }
  CHECK(days == 1);

  history.run("touch a/third.cc");  // not committed yet
  CHECK(history.tiers() == "change //a:a_test\nchange //b:b_test\n");
  history.commit("bazel/how.bzl");
  CHECK(history.tiers() == "change //a:a_test\nchange //b:b_test\n");  // everything is built so
}

TEST_CASE("tests that a configuration leaves out are in no tier") {
  History history;
  history.tiers();
  const std::string queries = history.run("cat ../queries").out;
  CHECK(queries.find("except attr(tags, '\\b(no_asan|plain|programs)\\b', tests(//...))") !=
        std::string::npos);
}
