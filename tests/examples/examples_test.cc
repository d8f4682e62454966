// Every example runs, and prints what it is there to show.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/tests/support/small_datasets.h"
#include "brim/tests/support/subprocess.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

std::string output_of(const std::string& command) {
  const Finished run = run_command(command);
  INFO(run.out);
  REQUIRE_MESSAGE(run.code == 0, run.err);
  return run.out;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A command that runs in `folder`, as `bazel run` does.
std::string in(const TempFolder& folder, const std::string& command) {
  return "BUILD_WORKING_DIRECTORY=" + folder.path() + " " + command;
}

}  // namespace

TEST_CASE("examples: hello finds the line") {
  CHECK(output_of("examples/hello").starts_with("y = 2.000 x + 1.000, loss"));
}

TEST_CASE("examples: resnet trains on a folder within its budget, and saves what it learnt") {
  const TempFolder folder;
  write_mnist(folder, 40);
  const std::string out = output_of(in(folder, "examples/resnet . 300MiB 1"));
  CHECK(contains(out, "chosen"));
  CHECK(contains(out, "epoch 1: accuracy "));
  CHECK(std::filesystem::exists(folder.path() + "/resnet18.safetensors"));

  const Finished small = run_command(in(folder, "examples/resnet . 50MiB 1"));
  CHECK(small.code == 1);
  CHECK_MESSAGE(contains(small.err, "least is needed with"), small.err);
  CHECK(contains(run_command("examples/resnet").err, "usage: resnet DIR"));
  CHECK(contains(run_command("examples/resnet nowhere").err, "nowhere"));
}

TEST_CASE("examples: finetune trains a new head, and then all") {
  const TempFolder folder;
  write_mnist(folder, 40);
  const auto model = nn::make_model("mobilenet_v2", {.classes = 7});
  nn::initialize(*model, /*seed=*/3);
  nn::save_weights(*model, folder.path() + "/weights.safetensors");
  const std::string out = output_of(in(folder, "examples/finetune . weights.safetensors"));
  CHECK(contains(out, "head: held "));
  CHECK(contains(out, "all: held "));
}

TEST_CASE("examples: a model of two inputs holds what was predicted, and learns") {
  const std::string out = output_of("examples/own_model");
  CHECK(contains(out, "as asked for"));
  const size_t at = out.find("held ");
  REQUIRE(at != std::string::npos);
  const std::string held = out.substr(at + 5, out.find(" bytes") - at - 5);
  CHECK(contains(out, "as predicted " + held + ";"));
  CHECK(std::stod(out.substr(out.rfind("loss ") + 5)) < 0.15);
}

TEST_CASE("examples: segmentation finds the discs, and recomputes to fit") {
  const std::string out = output_of("examples/segmentation");
  CHECK(contains(out, "recompute "));
  const size_t last = out.find("epoch 6: ");
  REQUIRE(last != std::string::npos);
  CHECK(std::stod(out.substr(last + 9)) > 95);
}

TEST_CASE("examples: an op of one's own has the gradient of its formula") {
  const std::string out = output_of("examples/own_op");
  CHECK(contains(out, "-0.75"));
  CHECK(contains(out, "its gradient is that of numerical differences"));
}

TEST_CASE("examples: a planner of one's own keeps what comes back") {
  const std::string out = output_of("examples/own_planner");
  const size_t second = out.find("round 1: "), third = out.find("round 2: ");
  REQUIRE(third != std::string::npos);
  CHECK(contains(out, "sum 3000000"));
  // All rounds reserve what the first one did.
  const auto reserved = [&](size_t from) {
    const size_t at = out.find("reserved ", from);
    return out.substr(at, out.find('\n', at) - at);
  };
  CHECK(reserved(0) == reserved(second));
  CHECK(reserved(second) == reserved(third));
}

TEST_CASE("examples: a plan is read") {
  const std::string out = output_of("examples/read_plan");
  CHECK(contains(out, "a step of 8 images holds "));
  CHECK(contains(out, "parameters"));
  CHECK(contains(out, "recompute "));
}
