// What `bazel run //:install` leaves in a prefix, used outside of the tree as docs/linking.md says, by
// its own commands; and that an install which cannot be done changes nothing.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"

using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

// The blocks between ``` and ``` of the page's section.
std::vector<std::string> blocks_of_page() {
  std::vector<std::string> blocks;
  std::ifstream page("docs/linking.md");
  bool inside = false, open = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Linking without Bazel";
    if (!inside) continue;
    if (line.starts_with("```")) {
      open = !open;
      if (open) blocks.emplace_back();
    } else if (open) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

// A person's home: programs of theirs, and a `bazel` that only knows how to install.
class Home {
 public:
  Home() {
    const std::string tree = fs::current_path().string();
    write("bin/bazel", "#!/bin/sh\n[ \"$1 $2 $3\" = 'run //:install --' ] && shift 3 && exec '" +
                           tree + "/install' \"$@\"\n");
    fs::permissions(folder_.path() + "/bin/bazel", fs::perms::owner_all);
    fs::copy_file("examples/hello.cc", folder_.path() + "/hello.cc");
    folder_.make_folder("brim_docs/brim/docs");
    fs::copy("docs/lse_pool", folder_.path() + "/brim_docs/brim/docs/lse_pool");
    fs::copy_file("tests/docs/lse_pool_test.cc", folder_.path() + "/lse_pool_test.cc");
  }

  void write(const std::string& name, const std::string& text) const {
    folder_.write(name, std::vector<uint8_t>(text.begin(), text.end()));
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_.path() + "/" + name).rdbuf();
    return text.str();
  }
  /// Lines for a shell that stops at the first error, in the home folder.
  Finished run(const std::string& lines) const {
    write("lines.sh", "export HOME='" + folder_.path() +
                          "'\nexport PATH=\"$HOME/bin:$PATH\"\ncd\n" +
                          "unset LD_LIBRARY_PATH CXXFLAGS LDFLAGS CPATH\n" + lines);
    return run_command("bash -eu " + folder_.path() + "/lines.sh");
  }
  /// The same, where nothing may fail.
  std::string output(const std::string& lines) const {
    Finished finished = run(lines);
    REQUIRE_MESSAGE(finished.code == 0, lines, finished.out, finished.err);
    return finished.out;
  }
  bool has(const std::string& name) const { return fs::exists(folder_.path() + "/" + name); }
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

const char* const kHello = "y = 2.000 x + 1.000, loss";

// The page's op of one's own is any op; here it is that of docs/adding_an_op.md.
void write_own_op(const Home& home) {
  home.write("my_op.cc",
             "#include \"brim/docs/lse_pool/lse_pool.cc\"\n"
             "#include \"brim/docs/lse_pool/lse_pool_cpu.cc\"\n");
  home.write("my_op_test.cc", "#include \"lse_pool_test.cc\"\n");
}

}  // namespace

TEST_CASE("install: the page's commands build programs, with pkg-config and with CMake") {
  std::vector<std::string> blocks = blocks_of_page();
  REQUIRE(blocks.size() == 6);
  Home home;
  std::string installed = home.output(blocks[0]);
  CHECK(installed == "install: brim is in " + home.path() + "/brim; its pkg-config files are in " +
                         home.path() + "/brim/lib/pkgconfig\n");

  CHECK(home.output(blocks[1] + "./hello").starts_with(kHello));
  CHECK(home.output("ldd hello").find(home.path() + "/brim/lib/libbrim.so.0.2") !=
        std::string::npos);
  const std::string pkg_config = "export PKG_CONFIG_PATH=~/brim/lib/pkgconfig\n";
  CHECK(home.output(pkg_config + blocks[2] + "./hello_static").starts_with(kHello));
  CHECK(home.output("ldd hello_static").find("libbrim") == std::string::npos);

  home.write("CMakeLists.txt", blocks[3]);
  CHECK(home.output(blocks[4] + "build/hello").find(kHello) != std::string::npos);

  write_own_op(home);
  std::string tested =
      home.output(pkg_config + "export CPATH=~/brim_docs\n" + blocks[5] + "./my_op_test");
  CHECK(tested.find("test cases: 1 | 1 passed | 0 failed") != std::string::npos);
}

TEST_CASE("install: CMake has the archive and the testing target, and minds the version") {
  Home home;
  home.output("bazel run //:install -- --prefix prefix");
  write_own_op(home);
  home.write("CMakeLists.txt", R"(cmake_minimum_required(VERSION 3.18)
project(mine CXX)
find_package(brim ${WANTED} REQUIRED)
add_executable(hello hello.cc)
target_link_libraries(hello brim::static)
add_executable(my_op_test my_op.cc my_op_test.cc)
target_include_directories(my_op_test PRIVATE brim_docs)
target_link_libraries(my_op_test brim::testing)
)");
  const std::string configure = "cmake -B build -DCMAKE_PREFIX_PATH=$HOME/prefix -DWANTED=";
  for (const char* other : {"0.1", "0.3", "1.0"}) {
    Finished refused = home.run(configure + other);
    CHECK(refused.code != 0);
    CHECK(refused.err.find("version: 0.2") != std::string::npos);
  }
  std::string built = home.output(configure + "0.2.0\ncmake --build build\nbuild/hello\n" +
                                  "ldd build/hello\nbuild/my_op_test");
  CHECK(built.find(kHello) != std::string::npos);
  CHECK(built.find("libbrim") == std::string::npos);
  CHECK(built.find("test cases: 1 | 1 passed | 0 failed") != std::string::npos);
}

TEST_CASE("install: CMake says which version of a library it wants that is not here") {
  Home home;
  home.output("bazel run //:install -- --prefix prefix");
  home.write("CMakeLists.txt", R"(cmake_minimum_required(VERSION 3.18)
project(mine CXX)
find_package(brim REQUIRED)
)");
  const std::string configure = "cmake -B build -DCMAKE_PREFIX_PATH=$HOME/prefix";
  home.output(configure);
  const Finished refused = home.run(
      "sed -i 's/libfmt[.]so[.][0-9]*/libfmt.so.999/' prefix/lib/cmake/brim/*.cmake\n" + configure);
  CHECK(refused.code != 0);
  CHECK(refused.err.find("brim wants libfmt.so.999, which is not here; build brim on this") !=
        std::string::npos);
}

TEST_CASE("install: --static names what the archive stands on, and the tree can be moved") {
  Home home;
  home.output("bazel run //:install -- --prefix=first && mv first 'second place'");
  const std::string moved = "export PKG_CONFIG_PATH='second place/lib/pkgconfig'\npkg-config ";
  std::string flags = home.output(moved + "--static --libs brim");
  for (const char* flag : {"-lbrim", "-lfmt", "-fopenmp", "-ldnnl", "-lpng", "-ljpeg"})
    CHECK(flags.find(flag) != std::string::npos);
  CHECK(home.output(moved + "--libs brim").find("-ldnnl") == std::string::npos);
  CHECK(home.output(moved + "--modversion brim") == "0.2.0\n");
  CHECK(home.output(moved + "--cflags brim").find("second") != std::string::npos);
}

TEST_CASE("install: programs get public headers and no others") {
  Home home;
  home.output("bazel run //:install -- --prefix prefix");
  for (const char* header : {"brim.h", "core/launch.h", "autograd/op.h", "ops/conv2d.h",
                             "nn/models/resnet.h", "tests/support/op_spec.h"})
    CHECK_MESSAGE(home.has(std::string("prefix/include/brim/") + header), header);
  for (const char* header :
       {"ops/onednn.h", "ops/cpu/vector.h", "ops/op.h", "data/codecs.h", "tests/support/checker.h"})
    CHECK_MESSAGE(!home.has(std::string("prefix/include/brim/") + header), header);
}

TEST_CASE("install: headers stay quick to compile") {
  Home home;
  home.output("bazel run //:install -- --prefix prefix");
  // hello.cc takes 1.3 s at -O0 with 77,000 lines on a machine of 2025, and should stay below 3 s
  // on slower ones. Lines are the same everywhere, seconds are not.
  std::string lines = home.output("g++ -std=c++20 -E -P -Iprefix/include hello.cc | wc -l");
  CHECK(std::stoi(lines) > 10000);
  CHECK(std::stoi(lines) < 90000);
}

TEST_CASE("install: an older brim is replaced, with what it had too much") {
  Home home;
  home.output("bazel run //:install -- --prefix prefix");
  home.write("prefix/include/brim/gone.h", "of an older version\n");
  home.write("prefix/include/other.h", "not brim's\n");
  home.write("prefix/lib/libbrim.a", "damaged\n");
  home.output("bazel run //:install -- --prefix prefix");
  CHECK(!home.has("prefix/include/brim/gone.h"));
  CHECK(home.read("prefix/include/other.h") == "not brim's\n");
  CHECK(home.read("prefix/lib/libbrim.a").starts_with("!<arch>\n"));
  CHECK(home.output("ls -A prefix") == "include\nlib\n");
}

TEST_CASE("install: a prefix that cannot be written is one clear line, and nothing changes") {
  Home home;
  home.write("file", "");
  struct {
    std::string prefix, error;
  } const refusals[] = {
      {"/proc/brim", "install: cannot install into /proc/brim: cannot create directory"},
      {"file", "install: cannot install into " + home.path() + "/file: cannot create directory"},
      {"''", "install: expected --prefix DIR"},
  };
  for (const auto& [prefix, error] : refusals) {
    CAPTURE(prefix);
    Finished run =
        home.run("BUILD_WORKING_DIRECTORY=$HOME bazel run //:install -- --prefix " + prefix);
    CHECK(run.code == 1);
    CHECK(run.out == "");
    CHECK_MESSAGE(run.err.starts_with(error), run.err);
    CHECK(run.err.find('\n') == run.err.size() - 1);
  }
}

TEST_CASE("install: a prefix with a folder where a file goes stays as it was") {
  Home home;
  home.write("prefix/lib/libbrim.a/mine", "a user's\n");
  home.write("prefix/include/brim/old.h", "an older version\n");
  Finished run = home.run("bazel run //:install -- --prefix prefix");
  CHECK(run.code == 1);
  CHECK(run.err == "install: cannot install into " + home.path() + "/prefix: " + home.path() +
                       "/prefix/lib/libbrim.a is a folder\n");
  CHECK(home.output("find prefix -type f | sort") ==
        "prefix/include/brim/old.h\nprefix/lib/libbrim.a/mine\n");
}

TEST_CASE("install: help, and arguments that are not known") {
  Home home;
  Finished help = home.run("bazel run //:install -- --help");
  CHECK(help.code == 0);
  CHECK(help.out.find("bazel run //:install -- --prefix DIR") != std::string::npos);
  CHECK(home.run("bazel run //:install --").err.starts_with("install: expected --prefix DIR"));
  CHECK(home.run("bazel run //:install -- --prefx x")
            .err.starts_with("install: unknown argument --prefx; did you mean --prefix?"));
  CHECK(home.run("bazel run //:install -- --prefix")
            .err.starts_with("install: --prefix: expected a folder after it"));
}
