// How brim's own code chooses among what cuBLASLt proposes for a product, and what it does where
// that refuses or fails: on an emulated GPU, with a cuBLASLt that can be told to
// (plain_cublaslt.h). Where there is no emulated GPU, it says so.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "brim/base/error.h"
#include "brim/core/slow_launches.h"
#include "brim/ops/matmul.h"
#include "brim/tests/support/plain_cublaslt.h"

using namespace brim;
using namespace brim::testing;

namespace {

bool skipped() {
  if (use_plain_cublaslt()) return false;
  MESSAGE("skipped: products that are refused (no emulated GPU)");
  return true;
}

/// [m,k] by [k,3] on a GPU: what was chosen for an m before is kept.
std::vector<double> product(int64_t m, Dtype dtype, Device device) {
  const Tensor a = convert_to(uniform({m, 4}, -1, 1, RandomKey{1}), {dtype, device}),
               b = convert_to(uniform({4, 3}, -1, 1, RandomKey{2}), {dtype, device});
  return matmul(a, b).to_vector<double>();
}

void check_product(int64_t m, Dtype dtype) {
  CAPTURE(to_string(dtype));
  const auto here = product(m, dtype, Device::cpu()), there = product(m, dtype, Device::cuda());
  REQUIRE(here.size() == there.size());
  // Sums of four products below 1, rounded once: half a unit in the last place of what is below 4,
  // on either side, and the sums' own roundings where they are wide.
  const double unit = dtype == Dtype::float64   ? 1e-15
                      : dtype == Dtype::float32 ? 1e-6
                      : dtype == Dtype::float16 ? 4.0 / (1 << 11)
                                                : 4.0 / (1 << 8);
  for (size_t i = 0; i < here.size(); ++i) CHECK(std::abs(here[i] - there[i]) <= unit);
}

constexpr Dtype kFloats[] = {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16};

int64_t slow(const std::string& op, const std::string& way) {
  for (const SlowLaunches& each : slow_launches())
    if (each.op == op && each.way == way) return each.count;
  return 0;
}

}  // namespace

TEST_CASE("cuda products: the first algorithm that adds in one order is taken") {
  if (skipped()) return;
  const int64_t first = products_by(0);
  for (Dtype dtype : kFloats) check_product(11, dtype);
  CHECK(products_by(0) == first + 4);
  const CublasLtTrouble trouble({.unordered = 2});
  for (Dtype dtype : kFloats) check_product(12, dtype);
  CHECK(products_by(0) == first + 4);
  CHECK(products_by(2) == 4);
}

TEST_CASE(
    "cuda products: without one a plain kernel multiplies, halves are widened, and it is said") {
  if (skipped()) return;
  int64_t m = 20;
  for (const CublasLtTroubles& troubles :
       {CublasLtTroubles{.unordered = 100}, CublasLtTroubles{.has_none = true},
        CublasLtTroubles{.is_refusing = true}}) {
    const CublasLtTrouble trouble(troubles);
    const int64_t plain = slow("matmul", "by a plain kernel"),
                  widened = slow("matmul", "widened to float32");
    for (Dtype dtype : kFloats) check_product(m, dtype);
    CHECK(slow("matmul", "by a plain kernel") == plain + 4);
    CHECK(slow("matmul", "widened to float32") == widened + 2);
    ++m;
  }
  CHECK(to_string({{"conv2d", "widened to float32", 12}, {"matmul", "by a plain kernel", 1}}) ==
        "conv2d widened to float32 in 12 launches, matmul by a plain kernel in 1 launch");
  CHECK(to_string(std::vector<SlowLaunches>{}).empty());
}

TEST_CASE("cuda products: a function that fails is named with the product, and is no answer") {
  if (skipped()) return;
  int64_t m = 30;
  for (const std::string& function : cublaslt_functions())
    for (Dtype dtype : {Dtype::float32, Dtype::float16}) {
      CAPTURE(function);
      const auto before = slow_launches();
      {
        const CublasLtTrouble trouble({.failing = function});
        const std::string wanted = "cublasLt: " + function + " failed: the test's cuBLASLt failed";
        CHECK_THROWS_WITH_AS(product(m, dtype, Device::cuda()), doctest::Contains(wanted.c_str()),
                             DeviceError);
        if (function != "cublasLtCreate")
          CHECK_THROWS_WITH(
              product(m, dtype, Device::cuda()),
              doctest::Contains(
                  fmt::format("for 1 {} product [{},4] by [4,3]", to_string(dtype), m).c_str()));
      }
      CHECK(slow_launches() == before);
      check_product(m, dtype);  // nothing was kept of it
      ++m;
    }
}
