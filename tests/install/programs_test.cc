// What people write against the installed library: a training within a budget in at most 40 lines,
// of any kind; and what the compiler says where it is not what they meant.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

/// A folder with brim installed in `prefix`.
class Installed {
 public:
  Installed() {
    const Finished done = run_command("./install --prefix " + folder_.path() + "/prefix");
    REQUIRE_MESSAGE(done.code == 0, done.err);
  }

  void write(const std::string& name, const std::string& text) const {
    folder_.write(name, std::vector<uint8_t>(text.begin(), text.end()));
  }
  /// Compiles `name`.cc of the folder to `name`, as the page on linking says.
  Finished compile(const std::string& name, const std::string& flags = "") const {
    return in_folder("g++ -std=c++20 " + flags + " " + name + ".cc -o " + name +
                     " $(PKG_CONFIG_PATH=prefix/lib/pkgconfig pkg-config --cflags --libs brim) "
                     "-Wl,-rpath,$PWD/prefix/lib");
  }
  Finished in_folder(const std::string& line) const {
    write("line.sh", "cd '" + folder_.path() + "'\nunset LD_LIBRARY_PATH CPATH\n" + line + "\n");
    return run_command("bash -eu " + folder_.path() + "/line.sh");
  }

 private:
  TempFolder folder_;
};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("install: forty lines train within a budget whatever the model, loss and optimizers") {
  const Installed brim;
  int programs = 0;
  for (const auto& entry : fs::directory_iterator("tests/install/programs")) {
    const std::string source = text_of(entry.path()), name = entry.path().stem().string();
    CAPTURE(name);
    CHECK(std::ranges::count(source, '\n') <= 40);
    brim.write(name + ".cc", source);
    const Finished compiled = brim.compile(name, "-Wall -Wextra");
    REQUIRE_MESSAGE(compiled.code == 0, compiled.err);
    CHECK_MESSAGE(!contains(compiled.err, "warning"), compiled.err);
    // It ends with 0 where it held what was predicted, to the byte.
    const Finished run = brim.in_folder("./" + name);
    CHECK_MESSAGE(run.code == 0, run.out, run.err);
    CHECK_MESSAGE((contains(run.out, "what would fit: ") || contains(run.out, "least is needed")),
                  run.out);
    ++programs;
  }
  CHECK(programs == 3);
}

TEST_CASE("install: the compiler names the commonest mistakes") {
  const Installed brim;
  const struct {
    const char *mistake, *said;
  } cases[] = {
      {"if (x > 0) return;", "a Tensor is neither true nor false: ask item<bool>() of one"},
      {"(void)(x + \"2\");", "a Tensor goes with a Tensor or with a number"},
      {"(void)line(3);", "a module is called with tensors: of a batch, net(batch["},
      {"(void)line(batch);", "a module is called with tensors: of a batch, net(batch["},
  };
  for (const auto& [mistake, said] : cases) {
    CAPTURE(mistake);
    brim.write("mistake.cc",
               std::string("#include \"brim/brim.h\"\nusing namespace brim;\n"
                           "void f(Tensor x, nn::Module& line, const Batch& batch) {\n"
                           "  (void)x, (void)line, (void)batch;\n") +
                   mistake + "\n}\nint main() {}\n");
    const Finished compiled = brim.compile("mistake", "-fsyntax-only");
    CHECK(compiled.code != 0);
    CHECK_MESSAGE(contains(compiled.err, said), compiled.err);
  }
}
