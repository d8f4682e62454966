// Programs take the kernels of the instruction set that is asked for, and compute the same with
// either, but for the last bits.
#include "brim/base/instructions.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"

using namespace brim;
using brim::testing::Finished;
using brim::testing::run_command;

namespace {

// What tests/kernels/probe.cc prints.
struct Probe {
  std::string set;
  int64_t matmul_scratch = 0;
  double sum_of_squares = 0;
  std::array<double, 5> losses{};
};

Finished run_with(const std::string& set, const std::string& program) {
  return run_command("BRIM_INSTRUCTIONS=" + set + " " + program);
}

Probe probe(const std::string& set) {
  Finished run = run_with(set, "tests/kernels/probe");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  Probe probe;
  std::istringstream lines(run.out);
  lines >> probe.set >> probe.matmul_scratch >> probe.sum_of_squares;
  for (double& loss : probe.losses) lines >> loss;
  REQUIRE(!lines.fail());
  return probe;
}

std::vector<std::string> sets_here() {
  std::vector<std::string> sets;
  for (Instructions set : {Instructions::x86_64_v3, Instructions::x86_64_v4})
    if (set >= least_instructions() && set <= best_instructions())
      sets.emplace_back(to_string(set));
    else
      MESSAGE("skipped: ", to_string(set), " (this processor or this build does not have it)");
  return sets;
}

}  // namespace

TEST_CASE("instructions: programs train with the set that is asked for") {
  for (const std::string& set : sets_here()) {
    CAPTURE(set);
    Probe run = probe(set);
    CHECK(run.set == set);
    for (double loss : run.losses) CHECK(std::isfinite(loss));
    CHECK(run.losses.back() < run.losses.front());
    CHECK(probe(set).losses == run.losses);
    CHECK(run_with(set, "examples/hello").out.starts_with("y = 2.000 x + 1.000, loss"));
  }
}

TEST_CASE("instructions: without a wish, a program takes the best") {
  CHECK(probe("").set == to_string(best_instructions()));
}

TEST_CASE("instructions: the kernels in the table are those of the set") {
  if (sets_here().size() < 2) return;
  Probe v3 = probe("x86-64-v3"), v4 = probe("x86-64-v4");
  // A packed panel of the product is two vectors wide, and 3 columns take one panel: 2 * 4 doubles
  // a row, or 2 * 8, for 7 rows and as many threads.
  CHECK(v4.matmul_scratch > v3.matmul_scratch);
  // The sums that squares of gradients are added to do not depend on the vectors.
  CHECK(v4.sum_of_squares == v3.sum_of_squares);
  // The first loss passed 8 ops, the longest sum of which has the 512 pixels of batch norm's
  // statistics. By tests/support/tolerance.h each run is off by 4 m u (1 + log2 n) (R + |f|); R is
  // about 1, as the logits that the loss follows are.
  double loss = v3.losses[0], off = 4 * 8 * 0x1p-24 * (1 + std::log2(512)) * (1 + loss);
  CHECK(std::abs(v4.losses[0] - loss) <= 2 * off);
}

TEST_CASE("instructions: a wrong wish ends the program with one line") {
  Finished run = run_with("avx512", "examples/hello");
  CHECK(run.code == 1);
  CHECK(run.out == "");
  CHECK(run.err == "BRIM_INSTRUCTIONS: expected x86-64-v3 or x86-64-v4, got avx512\n");
}
