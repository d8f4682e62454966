// The program that bench/gpu.sh packs has the cases of all ops and of the folders beside them, and
// runs those of one file.
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"

using namespace brim::testing;

namespace {

const std::string kProgram = "tests/gpu/gpu_tests";

}  // namespace

TEST_CASE("gpu_tests: lists cases of all ops, and of each folder beside them") {
  const Finished list = run_command(kProgram + " --list-test-cases --reporters=xml");
  CHECK(list.code == 0);
  std::vector<std::string> files{"tests/base/cuda_devices_test.cc",  "tests/core/cuda_test.cc",
                                 "tests/memory/cuda_source_test.cc", "tests/optim/cuda_test.cc",
                                 "tests/shrink/cuda_masks_test.cc",  "tests/train/cuda_mix_test.cc",
                                 "tests/apps/cuda_train_test.cc"};
  for (const auto& entry : std::filesystem::directory_iterator("tests/ops"))
    if (entry.path().string().ends_with("_test.cc")) files.push_back(entry.path().string());
  CHECK(files.size() > 70);
  for (const std::string& file : files)
    CHECK_MESSAGE(list.out.find("filename=\"" + file + "\"") != std::string::npos, file);
}

TEST_CASE("gpu_tests: runs the cases of one file, and no others") {
  const std::string one = " --source-file=*tests/ops/abs_test.cc";
  const std::string file = "filename=\"tests/ops/abs_test.cc\"";
  const std::string list = run_command(kProgram + one + " --list-test-cases --reporters=xml").out;
  int cases = 0;
  for (size_t at = 0; (at = list.find(file, at)) != std::string::npos; ++at) ++cases;
  CHECK(cases > 0);
  const Finished run = run_command(kProgram + one + " --no-colors");
  CAPTURE(run.out);
  CHECK(run.code == 0);
  std::istringstream last(run.out.substr(run.out.find("test cases:") + 11));
  int ran = -1;
  last >> ran;
  CHECK(ran == cases);
}
