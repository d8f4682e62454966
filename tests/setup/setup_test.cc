// setup.sh on machines that are not this one: every program that it calls is a stand-in.
#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "brim/tests/support/subprocess.h"

using namespace brim::testing;

namespace {

// A folder of stand-ins, the whole PATH of the script.
struct Machine {
  explicit Machine(bool installed, const std::string& user) {
    add("dpkg-query", installed ? "echo -n installed" : "exit 1");
    add("id", "echo " + user);
    add("apt-get", "echo \"$@\"");
    for (std::string name : {"bash", "dirname", "env"})
      std::filesystem::create_symlink("/usr/bin/" + name, folder.path() + "/" + name);
  }
  void add(const std::string& name, const std::string& body) {
    std::string text = "#!/usr/bin/bash\n" + body + "\n";
    folder.write(name, std::vector<uint8_t>(text.begin(), text.end()));
    std::filesystem::permissions(folder.path() + "/" + name, std::filesystem::perms::owner_all);
  }
  Finished setup(const std::string& arguments) const {
    return run_command("PATH=" + folder.path() + " ./setup.sh " + arguments);
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
