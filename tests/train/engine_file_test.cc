// The engines of cuDNN in their file: taken when it is what was written here, and else chosen anew
// with a word about it. cuDNN itself is not asked: see tests/ops/cuda/convolution_test.cc.
#include "brim/train/engine_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "brim/base/error.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr const char* kKind = "NVIDIA H200, 9.0, cuDNN 91900";

EngineChoices some_choices() {
  return {{"forward float32 x 8x56x56x64",
           {.engine = 12, .knobs = {{2, 7}, {40, -1}}, .workspace = 4096, .timed = true}},
          {"backward_data float16 x 1x2x3x4", {.engine = 0, .workspace = 0}}};
}

/// Of GPUs of its own, so that tests do not see each other's tables.
struct Engines {
  TempFolder place;
  std::string folder = place.path() + "/cache";
  std::vector<std::string> said;

  EngineFileOptions options() {
    return {.folder = folder, .kind = kKind, .say = [this](const std::string& text) {
              said.push_back(text);
            }};
  }
  std::string file() const { return engine_file(kKind, folder); }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(file(), std::ios::binary).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder);
    std::ofstream(file(), std::ios::binary) << text;
  }
};

Device new_gpu() {
  static int index = 100;
  return Device::cuda(index++);
}

void choose(Device gpu, const EngineChoices& choices) {
  for (const auto& [name, choice] : choices) engine_table(gpu).choose(name, choice, true);
}

}  // namespace

TEST_CASE("engines come back from their text") {
  const std::string text = to_text(some_choices(), kKind);
  CHECK(engine_choices_from(text, kKind) == some_choices());
  CHECK(engine_choices_from(to_text({}, kKind), kKind).empty());
}

TEST_CASE("engines: a text with any byte changed or cut off is refused") {
  const std::string text = to_text(some_choices(), kKind);
  for (size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    CHECK_THROWS_AS(engine_choices_from(text.substr(0, i), kKind), FileError);
    std::string changed = text;
    changed[i] ^= 1;
    CHECK_THROWS_AS(engine_choices_from(changed, kKind), FileError);
  }
  CHECK_THROWS_AS(engine_choices_from(text + "\n", kKind), FileError);
}

TEST_CASE("engines: a text of another GPU, version of cuDNN or format is refused, and says which") {
  const std::string text = to_text(some_choices(), kKind);
  CHECK_THROWS_WITH_AS(engine_choices_from(text, "NVIDIA H200, 9.0, cuDNN 92000"),
                       doctest::Contains("it is of \"NVIDIA H200, 9.0, cuDNN 91900\", where there "
                                         "is \"NVIDIA H200, 9.0, cuDNN 92000\" now"),
                       FileError);
  std::string later = text;
  later.replace(later.find("\"version\":1"), 11, "\"version\":2");
  CHECK_THROWS_WITH_AS(engine_choices_from(later, kKind), doctest::Contains("it is of version 2"),
                       FileError);
}

TEST_CASE("engines: what a process found out is offered to the next") {
  Engines engines;
  const Device first = new_gpu(), second = new_gpu();
  take_up_engines(first, engines.options());  // there is no file
  keep_engines(first, engines.options());     // nor anything to keep
  CHECK_FALSE(std::filesystem::exists(engines.file()));
  choose(first, some_choices());
  keep_engines(first, engines.options());
  take_up_engines(second, engines.options());
  for (const auto& [name, choice] : some_choices())
    CHECK(engine_table(second).offered(name) == choice);
  CHECK(engines.said.empty());
}

TEST_CASE("engines: what is in the file stays, and new ones are added") {
  Engines engines;
  const Device first = new_gpu(), second = new_gpu();
  choose(first, {{"a", {.engine = 1}}, {"b", {.engine = 2}}});
  keep_engines(first, engines.options());
  choose(second, {{"b", {.engine = 3}}, {"c", {.engine = 4}}});  // at the same time as the first
  keep_engines(second, engines.options());
  const EngineChoices all{{"a", {.engine = 1}}, {"b", {.engine = 2}}, {"c", {.engine = 4}}};
  CHECK(engine_choices_from(engines.text(), kKind) == all);
}

TEST_CASE("engines: one that was offered and is no engine any more is replaced in the file") {
  Engines engines;
  const Device first = new_gpu(), second = new_gpu();
  choose(first, {{"a", {.engine = 1}}});
  keep_engines(first, engines.options());
  take_up_engines(second, engines.options());
  choose(second, {{"a", {.engine = 5}}});
  keep_engines(second, engines.options());
  CHECK(engine_choices_from(engines.text(), kKind) == EngineChoices{{"a", {.engine = 5}}});
}

TEST_CASE("engines: a damaged file is said, not taken, and replaced") {
  Engines engines;
  const Device gpu = new_gpu();
  engines.write("no engines");
  take_up_engines(gpu, engines.options());
  REQUIRE(engines.said.size() == 1);
  CHECK(engines.said[0].find("it is damaged") != std::string::npos);
  CHECK(engines.said[0].find(engines.file()) != std::string::npos);
  choose(gpu, some_choices());
  keep_engines(gpu, engines.options());
  CHECK(engine_choices_from(engines.text(), kKind) == some_choices());
}

TEST_CASE("engines: where nothing can be written that is said, and nothing else happens") {
  Engines engines;
  const Device gpu = new_gpu();
  std::ofstream(engines.folder) << "a file where the folder is to be";
  choose(gpu, some_choices());
  keep_engines(gpu, engines.options());
  REQUIRE(engines.said.size() == 1);
  CHECK(engines.said[0].find("the next run chooses engines by itself") != std::string::npos);
}

TEST_CASE("engines: without a folder, for a CPU, and without cuDNN nothing is kept") {
  const Device gpu = new_gpu();
  choose(gpu, some_choices());
  keep_engines(gpu, {.folder = "", .kind = kKind});
  CHECK(engine_kind(Device::cpu()).empty());
  CHECK(engine_kind(new_gpu()).empty());
  TempFolder folder;
  keep_engines(gpu, {.folder = folder.path()});
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("engines: writers at once leave a whole file") {
  Engines engines;
  std::vector<Device> gpus;
  for (int i = 0; i < 4; ++i) {
    gpus.push_back(new_gpu());
    choose(gpus.back(), {{"of writer " + std::to_string(i), {.engine = i}}});
  }
  const EngineFileOptions options{.folder = engines.folder, .kind = kKind};
  std::vector<std::thread> writers;
  for (Device gpu : gpus)
    writers.emplace_back([&options, gpu] {
      for (int i = 0; i < 20; ++i) keep_engines(gpu, options);
    });
  for (std::thread& writer : writers) writer.join();
  CHECK_FALSE(engine_choices_from(engines.text(), kKind).empty());
  for (Device gpu : gpus) keep_engines(gpu, options);  // what was lost is found out again
  const EngineChoices kept = engine_choices_from(engines.text(), kKind);
  CHECK(kept.size() == 4);
  for (const auto& [name, choice] : kept)
    CHECK(name == "of writer " + std::to_string(choice.engine));
}

TEST_CASE("engines: a file has the name of what it is for") {
  CHECK(engine_file(kKind, "/there") == "/there/engines_nvidia_h200_9_0_cudnn_91900.json");
  CHECK(engine_file("../../etc/passwd", "/there") == "/there/engines_etc_passwd.json");
}
